"""DescribeLogDirs (key 35): versions 1-4, flexible from 2.

v1: log directories, and what is in them (KIP-113); a throttled answer leaves at once, and the client waits (KIP-219)
v3: a top-level error
v4: total and usable bytes of each directory (KIP-827)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class DescribeLogDirsRequest(Message, api_key=35, versions="1-4", flexible="2+"):
    topics: Annotated[list[DescribableLogDirTopic] | None, Array("0+", nullable="0+")] = field(
        default_factory=empty_list
    )


class DescribableLogDirTopic(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class DescribeLogDirsResponse(Message, api_key=35, versions="1-4", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("3+", ignorable=True)] = 0
    results: Annotated[list[DescribeLogDirsResult], Array("0+")] = field(default_factory=empty_list)


class DescribeLogDirsResult(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    log_dir: Annotated[str, String("0+")] = ""
    topics: Annotated[list[DescribeLogDirsTopic], Array("0+")] = field(default_factory=empty_list)
    total_bytes: Annotated[int, Int64("4+", ignorable=True)] = -1
    usable_bytes: Annotated[int, Int64("4+", ignorable=True)] = -1


class DescribeLogDirsTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[DescribeLogDirsPartition], Array("0+")] = field(default_factory=empty_list)


class DescribeLogDirsPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    partition_size: Annotated[int, Int64("0+")] = 0
    offset_lag: Annotated[int, Int64("0+")] = 0
    is_future_key: Annotated[bool, Bool("0+")] = False
