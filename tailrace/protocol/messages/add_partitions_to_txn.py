"""AddPartitionsToTxn (key 24): versions 0-5, flexible from 3.

v0: one transaction (KIP-98)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
v2: PRODUCER_FENCED (KIP-588)
v4: several transactions, and verifying only; sent between brokers, clients stay at 3 (KIP-890)
v5: TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    transactions: Annotated[list[AddPartitionsToTxnTransaction], Array("4+")] = field(default_factory=empty_list)
    v3_and_below_transactional_id: Annotated[str, String("0-3")] = ""
    v3_and_below_producer_id: Annotated[int, Int64("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[int, Int16("0-3")] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Array("0-3")] = field(default_factory=empty_list)


class AddPartitionsToTxnTransaction(WireStruct):
    transactional_id: Annotated[str, String("4+")] = ""
    producer_id: Annotated[int, Int64("4+")] = 0
    producer_epoch: Annotated[int, Int16("4+")] = 0
    verify_only: Annotated[bool, Bool("4+")] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], Array("4+")] = field(default_factory=empty_list)


class AddPartitionsToTxnTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("4+", ignorable=True)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Array("4+")] = field(default_factory=empty_list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Array("0-3")] = field(
        default_factory=empty_list
    )


class AddPartitionsToTxnResult(WireStruct):
    transactional_id: Annotated[str, String("4+")] = ""
    topic_results: Annotated[list[AddPartitionsToTxnTopicResult], Array("4+")] = field(default_factory=empty_list)


class AddPartitionsToTxnTopicResult(WireStruct):
    name: Annotated[str, String("0+")] = ""
    results_by_partition: Annotated[list[AddPartitionsToTxnPartitionResult], Array("0+")] = field(
        default_factory=empty_list
    )


class AddPartitionsToTxnPartitionResult(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    partition_error_code: Annotated[int, Int16("0+")] = 0
