"""A group changes its protocol while its members go on (KIP-848, "Upgrade and Downgrade").

Upgrade: a member of the consumer protocol joins a classic group of consumers. The classic members stay, at the epoch
that was their generation, with what they were assigned. Downgrade: the last member of the consumer protocol goes, and
the rest is a classic group again, in the generation that was the group's epoch; it rebalances at once.
`group.consumer.migration.policy` says which of the two may happen.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tailrace.broker.groups.classic_group import ClassicGroup, ClassicState
from tailrace.broker.groups.classic_member import ClassicMember
from tailrace.broker.groups.classic_records import CONSUMER_PROTOCOL_TYPE, group_record, group_tombstone
from tailrace.broker.groups.consumer_decision import Surroundings
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_member import ConsumerMember
from tailrace.broker.groups.consumer_records import (
    assignment_epoch_record,
    current_record,
    group_epoch_record,
    group_tombstones,
    member_record,
    target_record,
)
from tailrace.broker.groups.consumer_replay import replay_all
from tailrace.broker.groups.embedded_protocol import (
    read_assignment,
    read_subscription,
    read_version,
    with_topic_ids,
    write_assignment,
)
from tailrace.protocol.coordinator.consumer_group import ClassicMemberMetadata, ClassicProtocol
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol


@dataclass(slots=True)
class Upgrade:
    """A consumer group made of a classic one, and the records that make it."""

    group: ConsumerGroup
    records: list[CoordinatorRecord]


@dataclass(slots=True)
class Downgrade:
    """A classic group made of a consumer group; `rebalances` where a member left it."""

    group: ClassicGroup
    rebalances: bool


# Upgrade


def upgrade(classic: ClassicGroup, surroundings: Surroundings) -> Upgrade:
    """Make a consumer group of a classic one; GROUP_ID_NOT_FOUND says why that can't be."""
    _check_upgrade(classic, surroundings)
    group_id = classic.group_id
    try:
        members = [_upgraded_member(classic, member, surroundings) for member in classic.members.values()]
    except MalformedFrame:
        raise _no_upgrade(classic, "because the embedded consumer protocol is malformed.") from None
    topics = frozenset[str]().union(*(member.subscribed_topic_names for member in members))
    metadata_hash = surroundings.hashes.of_group(topics)
    records = [
        *(member_record(group_id, member) for member in members),
        group_epoch_record(group_id, classic.generation, metadata_hash),
        *(target_record(group_id, member.member_id, member.assigned) for member in members),
        assignment_epoch_record(group_id, classic.generation),
        *(current_record(group_id, member) for member in members),
    ]
    group = ConsumerGroup(group_id)
    replay_all(group, records)
    return Upgrade(group, [group_tombstone(group_id), *records])


def _check_upgrade(classic: ClassicGroup, surroundings: Surroundings) -> None:
    if not surroundings.rules.may_upgrade:
        raise _no_upgrade(classic, "because online upgrade is disabled.")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _no_upgrade(classic, "because the group does not use the consumer embedded protocol.")
    if len(classic.members) > surroundings.rules.size_max:
        raise _no_upgrade(classic, "because the group size exceeds the consumer group maximum size.")


def _no_upgrade(classic: ClassicGroup, reason: str) -> ApiError:
    what = f"Cannot upgrade classic group {classic.group_id} to consumer group {reason}"
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, what)


def _upgraded_member(classic: ClassicGroup, member: ClassicMember, surroundings: Surroundings) -> ConsumerMember:
    subscription = read_subscription(member.protocols[0].metadata)
    assigned = read_assignment(member.assignment) if member.assignment else None
    if assigned is not None and assigned.user_data:
        # An assignor of the members' own keeps something there, which would be lost.
        raise _no_upgrade(
            classic,
            "because an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
        )
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
        member_epoch=classic.generation,
        previous_member_epoch=classic.generation,
        assigned={} if assigned is None else with_topic_ids(assigned.assigned_partitions, surroundings.cluster),
    )


def classic_metadata(session_timeout_ms: int, protocols: Collection[JoinGroupRequestProtocol]) -> ClassicMemberMetadata:
    """Keep what only the classic protocol knows of a member."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=p.name, metadata=bytes(p.metadata)) for p in protocols],
    )


# Downgrade


def may_downgrade(group: ConsumerGroup, gone: Collection[str], remaining: int, surroundings: Surroundings) -> bool:
    """Whether the group becomes a classic one when the members `gone` are, and `remaining` are left."""
    rest = [member for member in group.members.values() if member.member_id not in gone]
    rules = surroundings.rules
    return (
        remaining > 0
        and all(member.uses_classic_protocol for member in rest)
        and rules.may_downgrade
        and remaining <= rules.classic_size_max
    )


def downgrade(
    group: ConsumerGroup,
    gone: Collection[str],
    surroundings: Surroundings,
    *,
    replacement: tuple[str, ConsumerMember] | None = None,
) -> tuple[Downgrade, list[CoordinatorRecord]]:
    """Make a classic group of those that are left, and the records that say so.

    `replacement` is a static member of the consumer protocol that comes back as a classic one: whom it replaces, and
    the member. Its records name it already.
    """
    renamed = {} if replacement is None else {replacement[0]: replacement[1].member_id}
    records = list(group_tombstones(group, renamed=renamed))
    members = [member for member in group.members.values() if member.member_id not in gone]
    classic = ClassicGroup(
        group.group_id,
        initial_rebalance_delay_ms=surroundings.rules.classic_initial_rebalance_delay_ms,
        size_max=surroundings.rules.classic_size_max,
    )
    classic.state = ClassicState.STABLE
    classic.generation = group.group_epoch
    classic.state_since_ms = surroundings.now_ms
    for member in members:
        classic.add(_downgraded_member(member), CONSUMER_PROTOCOL_TYPE)
    if replacement is not None:
        classic.add(_downgraded_member(replacement[1]), CONSUMER_PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    former_ids = {new: old for old, new in renamed.items()}
    for member_id, classic_member in classic.members.items():
        target = group.targets.get(former_ids.get(member_id, member_id), {})
        version = read_version(classic_member.metadata(classic.protocol_name))
        classic_member.assignment = write_assignment(target, version, surroundings.cluster)
    records.append(group_record(classic))
    return Downgrade(classic, rebalances=replacement is None), records


def _downgraded_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=[
            JoinGroupRequestProtocol(name=protocol.name, metadata=protocol.metadata)
            for protocol in member.classic.supported_protocols
        ],
    )
