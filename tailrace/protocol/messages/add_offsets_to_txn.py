"""AddOffsetsToTxn (key 25): versions 0-4, flexible from 3.

v0: adds a group's offsets partition to a transaction (KIP-98)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
v2: PRODUCER_FENCED (KIP-588)
v4: TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Int16, Int32, Int64, Message, String


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    group_id: Annotated[str, String("0+")] = ""


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
