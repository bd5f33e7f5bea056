"""AlterPartition (key 56): versions 2-3, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class AlterPartitionRequest(Message, api_key=56, versions="2-3", flexible="0+"):
    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
    topics: Annotated[list[TopicDataRequest], Array("0+")] = field(default_factory=empty_list)


class TopicDataRequest(WireStruct):
    topic_id: Annotated[bytes, Uuid("2+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[PartitionDataRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionDataRequest(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    new_isr: Annotated[list[int], Array("0-2", of=Int32())] = field(default_factory=empty_list)
    new_isr_with_epochs: Annotated[list[BrokerState], Array("3+")] = field(default_factory=empty_list)
    leader_recovery_state: Annotated[int, Int8("1+")] = 0
    partition_epoch: Annotated[int, Int32("0+")] = 0


class BrokerState(WireStruct):
    broker_id: Annotated[int, Int32("3+")] = 0
    broker_epoch: Annotated[int, Int64("3+")] = -1


class AlterPartitionResponse(Message, api_key=56, versions="2-3", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[list[TopicDataResponse], Array("0+")] = field(default_factory=empty_list)


class TopicDataResponse(WireStruct):
    topic_id: Annotated[bytes, Uuid("2+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[PartitionDataResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionDataResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    isr: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    leader_recovery_state: Annotated[int, Int8("1+", ignorable=True)] = 0
    partition_epoch: Annotated[int, Int32("0+")] = 0
