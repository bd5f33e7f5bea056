"""DescribeProducers (key 61): version 0, flexible from 0.

v0: the producers that have state in a partition, to find hanging transactions (KIP-664)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    topics: Annotated[list[TopicRequest], Array("0+")] = field(default_factory=empty_list)


class TopicRequest(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partition_indexes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    topics: Annotated[list[TopicResponse], Array("0+")] = field(default_factory=empty_list)


class TopicResponse(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    active_producers: Annotated[list[ProducerState], Array("0+")] = field(default_factory=empty_list)


class ProducerState(WireStruct):
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int32("0+")] = 0
    last_sequence: Annotated[int, Int32("0+")] = -1
    last_timestamp: Annotated[int, Int64("0+")] = -1
    coordinator_epoch: Annotated[int, Int32("0+")] = 0
    current_txn_start_offset: Annotated[int, Int64("0+")] = -1
