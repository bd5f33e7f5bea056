"""PushTelemetry (key 72): version 0, flexible from 0.

v0: a client's metrics, in OTLP (KIP-714)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid
from tailrace.protocol.uuid import ZERO_UUID


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    client_instance_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    subscription_id: Annotated[int, Int32("0+")] = 0
    terminating: Annotated[bool, Bool("0+")] = False
    compression_type: Annotated[int, Int8("0+")] = 0
    metrics: Annotated[bytes, Bytes("0+")] = b""


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
