"""CreateDelegationToken (key 38): versions 1-3, flexible from 2.

v1: a token that stands for its owner (KIP-48); a throttled answer leaves at once, and the client waits (KIP-219)
v3: on behalf of another owner; the answer names who asked (KIP-373)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bytes, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class CreateDelegationTokenRequest(Message, api_key=38, versions="1-3", flexible="2+"):
    owner_principal_type: Annotated[str | None, String("3+", nullable="3+")] = ""
    owner_principal_name: Annotated[str | None, String("3+", nullable="3+")] = ""
    renewers: Annotated[list[CreatableRenewers], Array("0+")] = field(default_factory=empty_list)
    max_lifetime_ms: Annotated[int, Int64("0+")] = 0


class CreatableRenewers(WireStruct):
    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""


class CreateDelegationTokenResponse(Message, api_key=38, versions="1-3", flexible="2+"):
    error_code: Annotated[int, Int16("0+")] = 0
    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""
    token_requester_principal_type: Annotated[str, String("3+")] = ""
    token_requester_principal_name: Annotated[str, String("3+")] = ""
    issue_timestamp_ms: Annotated[int, Int64("0+")] = 0
    expiry_timestamp_ms: Annotated[int, Int64("0+")] = 0
    max_timestamp_ms: Annotated[int, Int64("0+")] = 0
    token_id: Annotated[str, String("0+")] = ""
    hmac: Annotated[bytes, Bytes("0+")] = b""
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
