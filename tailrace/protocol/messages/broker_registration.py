"""BrokerRegistration (key 62): versions 0-4, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    UInt16,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    broker_id: Annotated[int, Int32("0+")] = 0
    cluster_id: Annotated[str, String("0+")] = ""
    incarnation_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    listeners: Annotated[list[Listener], Array("0+")] = field(default_factory=empty_list)
    features: Annotated[list[Feature], Array("0+")] = field(default_factory=empty_list)
    rack: Annotated[str | None, String("0+", nullable="0+")] = ""
    is_migrating_zk_broker: Annotated[bool, Bool("1+")] = False
    log_dirs: Annotated[list[bytes], Array("2+", of=Uuid(), ignorable=True)] = field(default_factory=empty_list)
    previous_broker_epoch: Annotated[int, Int64("3+", ignorable=True)] = -1


class Listener(WireStruct):
    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0
    security_protocol: Annotated[int, Int16("0+")] = 0


class Feature(WireStruct):
    name: Annotated[str, String("0+")] = ""
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
