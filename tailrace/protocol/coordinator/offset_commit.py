"""A committed offset in `__consumer_offsets`."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.coordinator.record_types import CoordinatorKey, CoordinatorValue
from tailrace.protocol.schema import Int32, Int64, String, Uuid
from tailrace.protocol.uuid import ZERO_UUID


class OffsetCommitKey(CoordinatorKey, record_type=1, versions="0", flexible="none"):
    group: Annotated[str, String("0")] = ""
    topic: Annotated[str, String("0")] = ""
    partition: Annotated[int, Int32("0")] = 0


class OffsetCommitValue(CoordinatorValue, record_type=1, versions="0-4", flexible="4+"):
    offset: Annotated[int, Int64("0+")] = 0
    leader_epoch: Annotated[int, Int32("3+", ignorable=True)] = -1
    metadata: Annotated[str, String("0+")] = ""
    commit_timestamp: Annotated[int, Int64("0+")] = 0
    expire_timestamp: Annotated[int, Int64("1", ignorable=True)] = -1
    topic_id: Annotated[bytes, Uuid("4+", tag=0, tagged="4+", ignorable=True)] = ZERO_UUID
