"""One member's next step towards its target: what it gives up, what it gets, and its epoch.

A partition has one holder at any time. So a member first gives up what its target no longer has (and stays in its epoch
until it says that it did), then moves to the target's epoch with what nobody else holds, and then gets the rest as the
others release it (KIP-848, "Rebalance Process").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tailrace.broker.groups.assignors.group_spec import NO_PARTITIONS, Assignment
from tailrace.broker.groups.consumer_group import NO_EPOCH
from tailrace.broker.groups.consumer_member import ConsumerMember, MemberState
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


def reconcile(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    partition_epoch: Callable[[bytes, int], int],
    owned: Assignment | None,
) -> ConsumerMember:
    """Give the member as it is after this heartbeat; `owned` is what it says it owns, None where it says nothing."""
    step = _Step(member, target, target_epoch, partition_epoch, owned)
    match member.state:
        case MemberState.STABLE:
            return member if member.member_epoch == target_epoch else step.take(member.member_epoch)
        case MemberState.UNREVOKED_PARTITIONS:
            if step.still_owns(member.pending_revocation):
                return member
            return step.take(member.member_epoch + 1)
        case MemberState.UNRELEASED_PARTITIONS:
            return step.take(member.member_epoch)
        case MemberState.UNKNOWN:
            # A later version wrote this state. From nothing we know the way, so the member has to give up everything.
            if owned is None or owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return step.take(target_epoch)


class _Step:
    def __init__(
        self,
        member: ConsumerMember,
        target: Assignment,
        target_epoch: int,
        partition_epoch: Callable[[bytes, int], int],
        owned: Assignment | None,
    ) -> None:
        self._member = member
        self._target = target
        self._target_epoch = target_epoch
        self._partition_epoch = partition_epoch
        self._owned = owned

    def still_owns(self, partitions: Assignment) -> bool:
        """Whether the member owns any of these; one that says nothing may own them all."""
        if self._owned is None:
            return True
        return any(partitions.get(topic_id, NO_PARTITIONS) & owned for topic_id, owned in self._owned.items())

    def take(self, epoch: int) -> ConsumerMember:
        """Take the next step from an epoch."""
        kept: dict[bytes, frozenset[int]] = {}
        revoked: dict[bytes, frozenset[int]] = {}
        added: dict[bytes, frozenset[int]] = {}
        waits = False
        for topic_id in sorted({*self._target, *self._member.assigned}):
            target = self._target.get(topic_id, NO_PARTITIONS)
            present = self._member.assigned.get(topic_id, NO_PARTITIONS)
            missing = target - present
            free = frozenset(p for p in missing if self._partition_epoch(topic_id, p) == NO_EPOCH)
            waits = waits or free != missing
            _put(kept, topic_id, present & target)
            _put(revoked, topic_id, present - target)
            _put(added, topic_id, free)
        if revoked and self.still_owns(revoked):
            return self._at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        assigned = {
            topic_id: kept.get(topic_id, NO_PARTITIONS) | added.get(topic_id, NO_PARTITIONS)
            for topic_id in sorted({*kept, *added})
        }
        return self._at(self._target_epoch, state, assigned, {})

    def _at(self, epoch: int, state: MemberState, assigned: Assignment, revoked: Assignment) -> ConsumerMember:
        return replace(self._member.at_epoch(epoch), state=state, assigned=assigned, pending_revocation=revoked)


def _put(assignment: dict[bytes, frozenset[int]], topic_id: bytes, partitions: frozenset[int]) -> None:
    if partitions:
        assignment[topic_id] = partitions
