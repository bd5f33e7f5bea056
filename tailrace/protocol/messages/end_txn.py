"""EndTxn (key 26): versions 0-5, flexible from 3.

v0: commit or abort (KIP-98)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
v2: PRODUCER_FENCED (KIP-588)
v4: TRANSACTION_ABORTABLE (KIP-890)
v5: each transaction ends with a new epoch, which the answer gives together with the producer id (KIP-890)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Bool, Int16, Int32, Int64, Message, String


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    committed: Annotated[bool, Bool("0+")] = False


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    producer_id: Annotated[int, Int64("5+", ignorable=True)] = -1
    producer_epoch: Annotated[int, Int16("5+", ignorable=True)] = -1
