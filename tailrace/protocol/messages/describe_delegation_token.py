"""DescribeDelegationToken (key 41): versions 1-3, flexible from 2.

v1: tokens by owner (KIP-48); a throttled answer leaves at once, and the client waits (KIP-219)
v3: who asked for each token (KIP-373)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bytes, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class DescribeDelegationTokenRequest(Message, api_key=41, versions="1-3", flexible="2+"):
    owners: Annotated[list[DescribeDelegationTokenOwner] | None, Array("0+", nullable="0+")] = field(
        default_factory=empty_list
    )


class DescribeDelegationTokenOwner(WireStruct):
    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""


class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    error_code: Annotated[int, Int16("0+")] = 0
    tokens: Annotated[list[DescribedDelegationToken], Array("0+")] = field(default_factory=empty_list)
    throttle_time_ms: Annotated[int, Int32("0+")] = 0


class DescribedDelegationToken(WireStruct):
    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""
    token_requester_principal_type: Annotated[str, String("3+")] = ""
    token_requester_principal_name: Annotated[str, String("3+")] = ""
    issue_timestamp: Annotated[int, Int64("0+")] = 0
    expiry_timestamp: Annotated[int, Int64("0+")] = 0
    max_timestamp: Annotated[int, Int64("0+")] = 0
    token_id: Annotated[str, String("0+")] = ""
    hmac: Annotated[bytes, Bytes("0+")] = b""
    renewers: Annotated[list[DescribedDelegationTokenRenewer], Array("0+")] = field(default_factory=empty_list)


class DescribedDelegationTokenRenewer(WireStruct):
    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""
