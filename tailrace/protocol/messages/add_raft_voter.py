"""AddRaftVoter (key 80): version 0, flexible from 0.

v0: a controller joins the voters of the metadata quorum (KIP-853)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, UInt16, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class AddRaftVoterRequest(Message, api_key=80, versions="0", flexible="0+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    timeout_ms: Annotated[int, Int32("0+")] = 0
    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    listeners: Annotated[list[Listener], Array("0+")] = field(default_factory=empty_list)


class Listener(WireStruct):
    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


class AddRaftVoterResponse(Message, api_key=80, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+", ignorable=True)] = ""
