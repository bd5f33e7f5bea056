"""One partition of `__consumer_offsets` as the group coordinator knows it: its groups, and their offsets.

State changes in two ways only. Groups decide for themselves and write down what they have become; offsets count when
their records are committed in the log (`OffsetStore`). Loading replays the same records. Requests are checked and
routed by `group_coordinator.py`; which offsets may be committed, fetched or deleted is in `offset_requests.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from tailrace.broker.coordinator_log import CoordinatorLog, EncodedRecord, OnDone, TransactionalProducer
from tailrace.broker.groups.classic_group import ClassicGroup
from tailrace.broker.groups.classic_records import restore_group
from tailrace.broker.groups.consumer_groups import ConsumerGroups
from tailrace.broker.groups.consumer_replay import CONSUMER_RECORD_TYPES
from tailrace.broker.groups.consumer_services import ConsumerServices
from tailrace.broker.groups.group import Group, GroupType
from tailrace.broker.groups.hosted_classic import HostedClassicGroup, RebalanceCounts
from tailrace.broker.groups.offset_store import NO_TRANSACTION, Commit, OffsetStore
from tailrace.clock import Clock
from tailrace.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.control import ControlType, EndTxnMarker
from tailrace.settings.broker_config import BrokerConfig

LOGGER = logging.getLogger(__name__)


class GroupShard:
    """See the module's docstring. `groups` holds every group, of whichever protocol, by its id."""

    def __init__(
        self,
        log: CoordinatorLog,
        *,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        counts: RebalanceCounts,
        services: ConsumerServices,
    ) -> None:
        self.log = log
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.consumers = ConsumerGroups(self, services)
        self._clock = clock
        self._config = config
        self._counts = counts
        self._commits_under_way: dict[str, int] = {}

    # Groups

    def group(self, group_id: str) -> Group:
        """Find a group; GROUP_ID_NOT_FOUND where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def classic_group(self, group_id: str, *, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> HostedClassicGroup:
        """Find a group of the classic protocol; `error` where there is none of that name."""
        group = self.groups.get(group_id)
        if not isinstance(group, HostedClassicGroup):
            what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
            raise ApiError(error, what)
        return group

    def new_classic_group(self, group_id: str) -> HostedClassicGroup:
        """Make a group without members, in place of what may have borne its name."""
        hosted = self._make_classic_group(group_id)
        self.replace_group(hosted)
        return hosted

    def replace_group(self, group: Group) -> None:
        """Let `group` be the one of its name from now on: it is new, was loaded, or was converted."""
        former = self.groups.get(group.group_id)
        if former is not None and former is not group:
            former.discard()
        self.groups[group.group_id] = group

    def remove_group(self, group_id: str) -> None:
        """Forget a group whose tombstone is written."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.discard()

    def committing_group(self, group_id: str, *, has_generation: bool, unknown: ErrorCode) -> Group | None:
        """Find the group that somebody commits offsets to; None where it is nobody's.

        Who belongs to no group may commit to any name, and so may make a simple group, of which nothing is written but
        its offsets. Who claims to be a member of a group that is not there is told `unknown`.
        """
        group = self.groups.get(group_id)
        if group is None and has_generation:
            raise ApiError(unknown, f"Group {group_id} not found.")
        return group

    def _make_classic_group(self, group_id: str) -> HostedClassicGroup:
        config = self._config()
        group = ClassicGroup(
            group_id,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            size_max=config.group_max_size,
        )
        group.state_since_ms = self._clock.time_ms()
        return self.host_classic(group)

    def host_classic(self, group: ClassicGroup) -> HostedClassicGroup:
        """Give a classic group its coordinator's hands."""
        return HostedClassicGroup(group, log=self.log, clock=self._clock, counts=self._counts)

    # Offsets

    def write_offsets(
        self, group_id: str, records: Sequence[CoordinatorRecord], *, on_done: OnDone, is_atomic: bool = True
    ) -> None:
        """Write offsets or their tombstones; they count when they are committed.

        A group that is not there comes into being with its first offset.
        """
        if group_id not in self.groups and records[0].value is not None:
            self.new_classic_group(group_id)
        base_offset = self.log.partition.log.log_end_offset

        def on_commit() -> None:
            apply = self.offsets.apply
            for offset, (key, value) in enumerate(records, base_offset):
                if isinstance(key, OffsetCommitKey):
                    assert value is None or isinstance(value, OffsetCommitValue)
                    apply(key, value, offset=offset, producer_id=NO_TRANSACTION)

        with self._under_way(group_id, on_done) as settled:
            self.log.append(records, on_done=settled, on_commit=on_commit, is_atomic=is_atomic)

    def write_commits(
        self,
        group_id: str,
        commits: Sequence[Commit],
        encoded: Sequence[EncodedRecord],
        *,
        on_done: OnDone,
        producer: TransactionalProducer | None = None,
    ) -> None:
        """Write a client's commits, `encoded` already; otherwise as `write_offsets`."""
        if group_id not in self.groups:
            self.new_classic_group(group_id)
        base_offset = self.log.partition.log.log_end_offset

        def on_commit() -> None:
            if producer is None:
                self.offsets.put_all(group_id, commits, base_offset=base_offset)
                return
            for record_offset, (topic, partition, committed) in enumerate(commits, base_offset):
                committed.record_offset = record_offset
                self.offsets.put_pending(producer.producer_id, group_id, topic, partition, committed)

        with self._under_way(group_id, on_done) as settled:
            self.log.append_encoded(encoded, on_done=settled, on_commit=on_commit, producer=producer)

    @contextmanager
    def _under_way(self, group_id: str, on_done: OnDone) -> Generator[OnDone]:
        """Count a write of a group's offsets until it is settled, or could not begin."""
        self._commits_under_way[group_id] = self._commits_under_way.get(group_id, 0) + 1

        def settled(code: ErrorCode) -> None:
            self._settled(group_id)
            on_done(code)

        try:
            yield settled
        except Exception:
            self._settled(group_id)
            raise

    def _settled(self, group_id: str) -> None:
        left = self._commits_under_way.get(group_id, 0) - 1
        if left > 0:
            self._commits_under_way[group_id] = left
        else:
            self._commits_under_way.pop(group_id, None)

    def delete(self, group: Group, records: Sequence[CoordinatorRecord], *, on_done: OnDone) -> None:
        """Write the tombstones that end a group and its offsets.

        The group is gone from this moment: whoever joins one of its name joins another one, whose records come later.
        """
        self.remove_group(group.group_id)

        def settled(code: ErrorCode) -> None:
            if code and self.log.is_active:
                self.groups.setdefault(group.group_id, group)
            on_done(code)

        self.write_offsets(group.group_id, records, on_done=settled, is_atomic=False)

    def is_committing(self, group_id: str) -> bool:
        """Whether offsets of a group were written and are not committed yet."""
        return group_id in self._commits_under_way

    def complete_transaction(self, *, marker: EndTxnMarker, producer: TransactionalProducer, on_done: OnDone) -> None:
        """Write the end of a producer's transaction; its pending offsets count when it is committed, or are gone."""

        def on_commit() -> None:
            is_commit = marker.control_type is ControlType.COMMIT
            self.offsets.end_transaction(producer.producer_id, is_commit=is_commit)

        self.log.append_marker(marker, producer, on_done=on_done, on_commit=on_commit)

    # The log

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Take up one record of the log."""
        key, value = record
        match key:
            case OffsetCommitKey():
                assert value is None or isinstance(value, OffsetCommitValue)
                if value is not None and key.group not in self.groups:
                    self.new_classic_group(key.group)
                self.offsets.apply(key, value, offset=offset, producer_id=producer_id)
            case GroupMetadataKey():
                assert value is None or isinstance(value, GroupMetadataValue)
                self._replay_classic(key.group, value)
            case _ if key.record_type in CONSUMER_RECORD_TYPES:
                self.consumers.replay(record)
            case _:
                LOGGER.debug("a record of type %d at offset %d is passed over", key.record_type, offset)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            group = self.groups.get(group_id)
            if group is not None and group.group_type is GroupType.CLASSIC:
                self.remove_group(group_id)
            return
        restore_group(self.new_classic_group(group_id).group, value)

    def replay_marker(self, *, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Take up the end of a transaction."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def activate(self) -> None:
        """Begin the sessions of the members that were loaded."""
        for group in list(self.groups.values()):
            group.activate()

    def resign(self) -> None:
        """Answer all who wait, and forget everything."""
        for group in list(self.groups.values()):
            group.resign()
        self.groups.clear()
        self.offsets = OffsetStore()

    # Counting

    def states(self) -> dict[tuple[GroupType, str], int]:
        """Count the groups by type and state."""
        counts: dict[tuple[GroupType, str], int] = {}
        for group in self.groups.values():
            key = (group.group_type, group.state_name)
            counts[key] = counts.get(key, 0) + 1
        return counts
