"""The headers in front of every request and every response.

Request v1: the client's id
Request v2: flexible; but the client's id keeps its int16 length, so that any broker can read the header of any ApiVersions
Response v1: flexible; an answer to ApiVersions never uses it
Which version a message has: `api_keys`. Headers are read without these classes on the way of a request: `frame`.
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Int16, Int32, Message, String


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: Annotated[int, Int16("0+")] = 0
    request_api_version: Annotated[int, Int16("0+")] = 0
    correlation_id: Annotated[int, Int32("0+")] = 0
    client_id: Annotated[str | None, String("1+", nullable="1+", flexible="none")] = ""


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: Annotated[int, Int32("0+")] = 0
