"""Produce (key 0): versions 3-13, flexible from 9.

v3: the transactional id, and record batches of magic 2 (KIP-98)
v4: KAFKA_STORAGE_ERROR may be answered (KIP-112)
v5: the log start offset in the answer, by which a client tells lost producer state from lost records
v6: a throttled answer leaves at once, and the client waits (KIP-219)
v7: zstd batches (KIP-110)
v8: which records of a rejected batch are wrong, and why (KIP-467)
v10: the current leader and its address where the asked broker is not it (KIP-951)
v11: TRANSACTION_ABORTABLE (KIP-890)
v12: in a transaction, adds the partition to it as well (transactions v2, KIP-890)
v13: topic ids in place of names; UNKNOWN_TOPIC_ID (KIP-516)
Served from 3 but advertised from 0: librdkafka stops compressing otherwise (KAFKA-18659).
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    Records,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: Annotated[str | None, String("3+", nullable="3+")] = None
    acks: Annotated[int, Int16("0+")] = 0
    timeout_ms: Annotated[int, Int32("0+")] = 0
    topic_data: Annotated[list[TopicProduceData], Array("0+")] = field(default_factory=empty_list)


class TopicProduceData(WireStruct):
    name: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("13+", ignorable=True)] = ZERO_UUID
    partition_data: Annotated[list[PartitionProduceData], Array("0+")] = field(default_factory=empty_list)


class PartitionProduceData(WireStruct):
    index: Annotated[int, Int32("0+")] = 0
    records: Annotated[Buffer | None, Records("0+", nullable="0+")] = None


class ProduceResponse(Message, api_key=0, versions="3-13", flexible="9+"):
    responses: Annotated[list[TopicProduceResponse], Array("0+")] = field(default_factory=empty_list)
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], Array("10+", tag=0, tagged="10+")] = field(default_factory=empty_list)


class TopicProduceResponse(WireStruct):
    name: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("13+", ignorable=True)] = ZERO_UUID
    partition_responses: Annotated[list[PartitionProduceResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionProduceResponse(WireStruct):
    index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    base_offset: Annotated[int, Int64("0+")] = 0
    log_append_time_ms: Annotated[int, Int64("2+", ignorable=True)] = -1
    log_start_offset: Annotated[int, Int64("5+", ignorable=True)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Array("8+", ignorable=True)] = field(
        default_factory=empty_list
    )
    error_message: Annotated[str | None, String("8+", nullable="8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Nested("10+", tag=0, tagged="10+")] = field(
        default_factory=lambda: LeaderIdAndEpoch()
    )


class BatchIndexAndErrorMessage(WireStruct):
    batch_index: Annotated[int, Int32("8+")] = 0
    batch_index_error_message: Annotated[str | None, String("8+", nullable="8+")] = None


class LeaderIdAndEpoch(WireStruct):
    leader_id: Annotated[int, Int32("10+")] = -1
    leader_epoch: Annotated[int, Int32("10+")] = -1


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("10+")] = 0
    host: Annotated[str, String("10+")] = ""
    port: Annotated[int, Int32("10+")] = 0
    rack: Annotated[str | None, String("10+", nullable="10+")] = None
