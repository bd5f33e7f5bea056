"""CreatePartitions (key 37): versions 0-3, flexible from 2.

v0: a larger number of partitions, with assignments or without (KIP-195)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
v3: THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Message, String, WireStruct, empty_list, field


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    topics: Annotated[list[CreatePartitionsTopic], Array("0+")] = field(default_factory=empty_list)
    timeout_ms: Annotated[int, Int32("0+")] = 0
    validate_only: Annotated[bool, Bool("0+")] = False


class CreatePartitionsTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    count: Annotated[int, Int32("0+")] = 0
    assignments: Annotated[list[CreatePartitionsAssignment] | None, Array("0+", nullable="0+")] = field(
        default_factory=empty_list
    )


class CreatePartitionsAssignment(WireStruct):
    broker_ids: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[list[CreatePartitionsTopicResult], Array("0+")] = field(default_factory=empty_list)


class CreatePartitionsTopicResult(WireStruct):
    name: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
