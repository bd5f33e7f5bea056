"""SaslAuthenticate (key 36): versions 0-2, flexible from 2.

v0: SASL tokens in Kafka's framing (KIP-152)
v1: how long the session lasts until the client has to authenticate again (KIP-368)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Bytes, Int16, Int64, Message, String


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: Annotated[bytes, Bytes("0+")] = b""


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    auth_bytes: Annotated[bytes, Bytes("0+")] = b""
    session_lifetime_ms: Annotated[int, Int64("1+", ignorable=True)] = 0
