"""ListTransactions (key 66): versions 0-2, flexible from 0.

v0: transactions by state and by producer (KIP-664)
v1: those that run longer than a duration (KIP-994)
v2: those whose id matches a pattern; INVALID_REGULAR_EXPRESSION (KIP-1152)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    state_filters: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    producer_id_filters: Annotated[list[int], Array("0+", of=Int64())] = field(default_factory=empty_list)
    duration_filter: Annotated[int, Int64("1+")] = -1
    transactional_id_pattern: Annotated[str | None, String("2+", nullable="2+")] = None


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    unknown_state_filters: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    transaction_states: Annotated[list[TransactionState], Array("0+")] = field(default_factory=empty_list)


class TransactionState(WireStruct):
    transactional_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    transaction_state: Annotated[str, String("0+")] = ""
