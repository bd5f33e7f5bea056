"""RemoveRaftVoter (key 81): version 0, flexible from 0.

v0: a controller leaves the voters of the metadata quorum (KIP-853)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Int16, Int32, Message, String, Uuid
from tailrace.protocol.uuid import ZERO_UUID


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+", ignorable=True)] = ""
