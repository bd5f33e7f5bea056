"""ListPartitionReassignments (key 46): version 0, flexible from 0.

v0: moves that are under way (KIP-455)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, WireStruct, empty_list, field


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    timeout_ms: Annotated[int, Int32("0+")] = 60000
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, Array("0+", nullable="0+")] = None


class ListPartitionReassignmentsTopics(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partition_indexes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    topics: Annotated[list[OngoingTopicReassignment], Array("0+")] = field(default_factory=empty_list)


class OngoingTopicReassignment(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[OngoingPartitionReassignment], Array("0+")] = field(default_factory=empty_list)


class OngoingPartitionReassignment(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    replicas: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    adding_replicas: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    removing_replicas: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
