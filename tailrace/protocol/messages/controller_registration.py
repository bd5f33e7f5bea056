"""ControllerRegistration (key 70): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    String,
    UInt16,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    controller_id: Annotated[int, Int32("0+")] = 0
    incarnation_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, Bool("0+")] = False
    listeners: Annotated[list[Listener], Array("0+")] = field(default_factory=empty_list)
    features: Annotated[list[Feature], Array("0+")] = field(default_factory=empty_list)


class Listener(WireStruct):
    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0
    security_protocol: Annotated[int, Int16("0+")] = 0


class Feature(WireStruct):
    name: Annotated[str, String("0+")] = ""
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
