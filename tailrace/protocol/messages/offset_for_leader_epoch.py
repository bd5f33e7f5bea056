"""OffsetForLeaderEpoch (key 23): versions 2-4, flexible from 4.

v2: the epoch that the end offset belongs to (KIP-279); the client's leader epoch, for fencing (KIP-320); throttle
    time
v3: the asking replica's id: -1 is a consumer, -2 a debugger that sees past the high watermark
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    replica_id: Annotated[int, Int32("3+", ignorable=True)] = -2
    topics: Annotated[list[OffsetForLeaderTopic], Array("0+")] = field(default_factory=empty_list)


class OffsetForLeaderTopic(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[OffsetForLeaderPartition], Array("0+")] = field(default_factory=empty_list)


class OffsetForLeaderPartition(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("2+", ignorable=True)] = -1
    leader_epoch: Annotated[int, Int32("0+")] = 0


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    topics: Annotated[list[OffsetForLeaderTopicResult], Array("0+")] = field(default_factory=empty_list)


class OffsetForLeaderTopicResult(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[EpochEndOffset], Array("0+")] = field(default_factory=empty_list)


class EpochEndOffset(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    partition: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("1+", ignorable=True)] = -1
    end_offset: Annotated[int, Int64("0+")] = -1
