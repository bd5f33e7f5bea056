"""ElectLeaders (key 43): versions 0-2, flexible from 2.

v0: elects the preferred replica (KIP-183)
v1: the kind of election, preferred or unclean; a top-level error (KIP-460)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    election_type: Annotated[int, Int8("1+")] = 0
    topic_partitions: Annotated[list[TopicPartitions] | None, Array("0+", nullable="0+")] = field(
        default_factory=empty_list
    )
    timeout_ms: Annotated[int, Int32("0+")] = 60000


class TopicPartitions(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("1+")] = 0
    replica_election_results: Annotated[list[ReplicaElectionResult], Array("0+")] = field(default_factory=empty_list)


class ReplicaElectionResult(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partition_result: Annotated[list[PartitionResult], Array("0+")] = field(default_factory=empty_list)


class PartitionResult(WireStruct):
    partition_id: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
