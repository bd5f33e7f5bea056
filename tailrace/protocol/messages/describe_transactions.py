"""DescribeTransactions (key 65): version 0, flexible from 0.

v0: state, producer and partitions of transactions (KIP-664)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    transactional_ids: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    transaction_states: Annotated[list[TransactionState], Array("0+")] = field(default_factory=empty_list)


class TransactionState(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    transactional_id: Annotated[str, String("0+")] = ""
    transaction_state: Annotated[str, String("0+")] = ""
    transaction_timeout_ms: Annotated[int, Int32("0+")] = 0
    transaction_start_time_ms: Annotated[int, Int64("0+")] = 0
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    topics: Annotated[list[TopicData], Array("0+")] = field(default_factory=empty_list)


class TopicData(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
