"""Envelope (key 58): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Bytes, Int16, Message


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    request_data: Annotated[bytes, Bytes("0+")] = b""
    request_principal: Annotated[bytes | None, Bytes("0+", nullable="0+")] = b""
    client_host_address: Annotated[bytes, Bytes("0+")] = b""


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    error_code: Annotated[int, Int16("0+")] = 0
