"""TxnOffsetCommit (key 28): versions 0-5, flexible from 3.

v0: offsets that count when the transaction commits (KIP-98)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
v2: leader epochs (KIP-320)
v3: member, generation and group instance id, so that a consumer that lost its partitions is fenced (KIP-447)
v4: TRANSACTION_ABORTABLE (KIP-890)
v5: adds the offsets to the transaction as well (transactions v2, KIP-890)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    transactional_id: Annotated[str, String("0+")] = ""
    group_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    generation_id: Annotated[int, Int32("3+")] = -1
    member_id: Annotated[str, String("3+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None
    topics: Annotated[list[TxnOffsetCommitRequestTopic], Array("0+")] = field(default_factory=empty_list)


class TxnOffsetCommitRequestTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[TxnOffsetCommitRequestPartition], Array("0+")] = field(default_factory=empty_list)


class TxnOffsetCommitRequestPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    committed_offset: Annotated[int, Int64("0+")] = 0
    committed_leader_epoch: Annotated[int, Int32("2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, String("0+", nullable="0+")] = ""


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    topics: Annotated[list[TxnOffsetCommitResponseTopic], Array("0+")] = field(default_factory=empty_list)


class TxnOffsetCommitResponseTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[TxnOffsetCommitResponsePartition], Array("0+")] = field(default_factory=empty_list)


class TxnOffsetCommitResponsePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
