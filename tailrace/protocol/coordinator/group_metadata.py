"""A classic group in `__consumer_offsets`: its generation, protocol, leader and members."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.coordinator.record_types import CoordinatorKey, CoordinatorValue
from tailrace.protocol.schema import Array, Bytes, Int32, Int64, String, WireStruct, empty_list, field


class GroupMetadataKey(CoordinatorKey, record_type=2, versions="0", flexible="none"):
    group: Annotated[str, String("0")] = ""


class GroupMetadataValue(CoordinatorValue, record_type=2, versions="0-4", flexible="4+"):
    protocol_type: Annotated[str, String("0+")] = ""
    generation: Annotated[int, Int32("0+")] = 0
    protocol: Annotated[str | None, String("0+", nullable="0+")] = ""
    leader: Annotated[str | None, String("0+", nullable="0+")] = ""
    current_state_timestamp: Annotated[int, Int64("2+", ignorable=True)] = -1
    members: Annotated[list[MemberMetadata], Array("0+")] = field(default_factory=empty_list)


class MemberMetadata(WireStruct):
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+", ignorable=True)] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    rebalance_timeout: Annotated[int, Int32("1+", ignorable=True)] = -1
    session_timeout: Annotated[int, Int32("0+")] = 0
    subscription: Annotated[bytes, Bytes("0+")] = b""
    assignment: Annotated[bytes, Bytes("0+")] = b""
