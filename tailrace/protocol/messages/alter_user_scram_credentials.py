"""AlterUserScramCredentials (key 51): version 0, flexible from 0.

v0: deletes, creates and changes SCRAM credentials (KIP-554)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bytes, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    deletions: Annotated[list[ScramCredentialDeletion], Array("0+")] = field(default_factory=empty_list)
    upsertions: Annotated[list[ScramCredentialUpsertion], Array("0+")] = field(default_factory=empty_list)


class ScramCredentialDeletion(WireStruct):
    name: Annotated[str, String("0+")] = ""
    mechanism: Annotated[int, Int8("0+")] = 0


class ScramCredentialUpsertion(WireStruct):
    name: Annotated[str, String("0+")] = ""
    mechanism: Annotated[int, Int8("0+")] = 0
    iterations: Annotated[int, Int32("0+")] = 0
    salt: Annotated[bytes, Bytes("0+")] = b""
    salted_password: Annotated[bytes, Bytes("0+")] = b""


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[list[AlterUserScramCredentialsResult], Array("0+")] = field(default_factory=empty_list)


class AlterUserScramCredentialsResult(WireStruct):
    user: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
