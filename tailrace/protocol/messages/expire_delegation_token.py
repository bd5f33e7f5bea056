"""ExpireDelegationToken (key 40): versions 1-2, flexible from 2.

v1: an earlier expiry, or none any more (KIP-48); a throttled answer leaves at once, and the client waits (KIP-219)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Bytes, Int16, Int32, Int64, Message


class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+"):
    hmac: Annotated[bytes, Bytes("0+")] = b""
    expiry_time_period_ms: Annotated[int, Int64("0+")] = 0


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: Annotated[int, Int16("0+")] = 0
    expiry_timestamp_ms: Annotated[int, Int64("0+")] = 0
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
