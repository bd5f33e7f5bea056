"""AllocateProducerIds (key 67): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Int16, Int32, Int64, Message


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    producer_id_start: Annotated[int, Int64("0+")] = 0
    producer_id_len: Annotated[int, Int32("0+")] = 0
