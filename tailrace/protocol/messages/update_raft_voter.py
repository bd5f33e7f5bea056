"""UpdateRaftVoter (key 82): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Int16,
    Int32,
    Message,
    Nested,
    String,
    UInt16,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class UpdateRaftVoterRequest(Message, api_key=82, versions="0", flexible="0+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    current_leader_epoch: Annotated[int, Int32("0+")] = 0
    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    listeners: Annotated[list[Listener], Array("0+")] = field(default_factory=empty_list)
    k_raft_version_feature: Annotated[KRaftVersionFeature, Nested("0+")] = field(
        default_factory=lambda: KRaftVersionFeature()
    )


class Listener(WireStruct):
    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


class KRaftVersionFeature(WireStruct):
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    current_leader: Annotated[CurrentLeader, Nested("0+", tag=0, tagged="0+")] = field(
        default_factory=lambda: CurrentLeader()
    )


class CurrentLeader(WireStruct):
    leader_id: Annotated[int, Int32("0+")] = -1
    leader_epoch: Annotated[int, Int32("0+")] = -1
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
