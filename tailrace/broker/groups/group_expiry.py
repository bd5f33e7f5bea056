"""Offsets and groups that nobody needs any more.

An offset goes when `offsets.retention.minutes` have passed since the group became empty, or, where a group's members no
longer read its topic or the group never had members, since the offset was committed (KIP-211). A group goes with its
last offset, if it has no members. An offset that was committed with a retention of its own keeps to that.
"""

from __future__ import annotations

import logging

from tailrace.broker.groups.group import Group
from tailrace.broker.groups.group_shard import GroupShard
from tailrace.broker.groups.offset_store import NO_TIMESTAMP, CommittedOffset, offset_tombstone
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode

LOGGER = logging.getLogger(__name__)


def expire(shard: GroupShard, *, now_ms: int, retention_ms: int) -> int:
    """Write tombstones for what has expired in a shard; give how many offsets that were."""
    expired_count = 0
    for group in list(shard.groups.values()):
        if shard.is_committing(group.group_id):
            continue
        tombstones, are_all = expired_offsets(shard, group, now_ms=now_ms, retention_ms=retention_ms)
        expired_count += len(tombstones)
        if are_all and group.is_empty:
            shard.delete(group, [*tombstones, *group.tombstones()], on_done=_done)
        elif tombstones:
            shard.write_offsets(group.group_id, tombstones, on_done=_done, is_atomic=False)
    return expired_count


def expired_offsets(
    shard: GroupShard, group: Group, *, now_ms: int, retention_ms: int
) -> tuple[list[CoordinatorRecord], bool]:
    """Give the tombstones of a group's expired offsets, and whether nothing is left behind them."""
    group_id = group.group_id
    are_all = not shard.offsets.has_open_transactions(group_id)
    tombstones: list[CoordinatorRecord] = []
    for topic, partitions in shard.offsets.of_group(group_id).items():
        if group.is_subscribed_to(topic):
            are_all = False
            continue
        for partition, committed in partitions.items():
            has_expired = _has_expired(group, committed, now_ms=now_ms, retention_ms=retention_ms)
            if has_expired and not shard.offsets.has_pending(group_id, topic, partition):
                tombstones.append(offset_tombstone(group_id, topic, partition))
            else:
                are_all = False
    return tombstones, are_all


def _has_expired(group: Group, committed: CommittedOffset, *, now_ms: int, retention_ms: int) -> bool:
    since = group.expires_since(committed)
    if since is None:
        return False
    if committed.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp
    return now_ms - since >= retention_ms


def _done(code: ErrorCode) -> None:
    if code:
        LOGGER.warning("expired offsets could not be removed, and stay until the next time: %s", code.name)
