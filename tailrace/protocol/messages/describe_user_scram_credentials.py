"""DescribeUserScramCredentials (key 50): version 0, flexible from 0.

v0: which mechanisms a user has, and their iterations (KIP-554)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    users: Annotated[list[UserName] | None, Array("0+", nullable="0+")] = field(default_factory=empty_list)


class UserName(WireStruct):
    name: Annotated[str, String("0+")] = ""


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    results: Annotated[list[DescribeUserScramCredentialsResult], Array("0+")] = field(default_factory=empty_list)


class DescribeUserScramCredentialsResult(WireStruct):
    user: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    credential_infos: Annotated[list[CredentialInfo], Array("0+")] = field(default_factory=empty_list)


class CredentialInfo(WireStruct):
    mechanism: Annotated[int, Int8("0+")] = 0
    iterations: Annotated[int, Int32("0+")] = 0
