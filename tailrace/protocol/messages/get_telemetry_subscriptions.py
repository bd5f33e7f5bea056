"""GetTelemetrySubscriptions (key 71): version 0, flexible from 0.

v0: which metrics a client should push, how often and compressed how (KIP-714)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Uuid, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    client_instance_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    client_instance_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    subscription_id: Annotated[int, Int32("0+")] = 0
    accepted_compression_types: Annotated[list[int], Array("0+", of=Int8())] = field(default_factory=empty_list)
    push_interval_ms: Annotated[int, Int32("0+")] = 0
    telemetry_max_bytes: Annotated[int, Int32("0+")] = 0
    delta_temporality: Annotated[bool, Bool("0+")] = False
    requested_metrics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
