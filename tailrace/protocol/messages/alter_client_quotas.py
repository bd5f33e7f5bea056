"""AlterClientQuotas (key 49): versions 0-1, flexible from 1.

v0: sets and removes quotas of users, client ids and addresses (KIP-546)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Float64, Int16, Int32, Message, String, WireStruct, empty_list, field


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: Annotated[list[EntryDataRequest], Array("0+")] = field(default_factory=empty_list)
    validate_only: Annotated[bool, Bool("0+")] = False


class EntryDataRequest(WireStruct):
    entity: Annotated[list[EntityDataRequest], Array("0+")] = field(default_factory=empty_list)
    ops: Annotated[list[OpData], Array("0+")] = field(default_factory=empty_list)


class EntityDataRequest(WireStruct):
    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""


class OpData(WireStruct):
    key: Annotated[str, String("0+")] = ""
    value: Annotated[float, Float64("0+")] = 0.0
    remove: Annotated[bool, Bool("0+")] = False


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    entries: Annotated[list[EntryDataResponse], Array("0+")] = field(default_factory=empty_list)


class EntryDataResponse(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    entity: Annotated[list[EntityDataResponse], Array("0+")] = field(default_factory=empty_list)


class EntityDataResponse(WireStruct):
    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""
