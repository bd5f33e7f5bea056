"""InitProducerId (key 22): versions 0-6 (the last one unstable), flexible from 2.

v0: a producer id and epoch, for idempotence and transactions (KIP-98)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
v3: a producer sends the id and epoch it had, to have the epoch raised after an error (KIP-360)
v4: PRODUCER_FENCED (KIP-588)
v5: TRANSACTION_ABORTABLE (KIP-890)
v6: two-phase commit, keeping a prepared transaction; unstable (KIP-939)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Bool, Int16, Int32, Int64, Message, String


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+", unstable=True):
    transactional_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    transaction_timeout_ms: Annotated[int, Int32("0+")] = 0
    producer_id: Annotated[int, Int64("3+")] = -1
    producer_epoch: Annotated[int, Int16("3+")] = -1
    enable2_pc: Annotated[bool, Bool("6+")] = False
    keep_prepared_txn: Annotated[bool, Bool("6+")] = False


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    producer_id: Annotated[int, Int64("0+")] = -1
    producer_epoch: Annotated[int, Int16("0+")] = 0
    ongoing_txn_producer_id: Annotated[int, Int64("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[int, Int16("6+")] = -1
