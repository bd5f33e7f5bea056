"""DescribeClientQuotas (key 48): versions 0-1, flexible from 1.

v0: quotas of users, client ids and addresses (KIP-546)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    WireStruct,
    empty_list,
    field,
)


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    components: Annotated[list[ComponentData], Array("0+")] = field(default_factory=empty_list)
    strict: Annotated[bool, Bool("0+")] = False


class ComponentData(WireStruct):
    entity_type: Annotated[str, String("0+")] = ""
    match_type: Annotated[int, Int8("0+")] = 0
    match: Annotated[str | None, String("0+", nullable="0+")] = ""


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    entries: Annotated[list[EntryData] | None, Array("0+", nullable="0+")] = field(default_factory=empty_list)


class EntryData(WireStruct):
    entity: Annotated[list[EntityData], Array("0+")] = field(default_factory=empty_list)
    values: Annotated[list[ValueData], Array("0+")] = field(default_factory=empty_list)


class EntityData(WireStruct):
    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""


class ValueData(WireStruct):
    key: Annotated[str, String("0+")] = ""
    value: Annotated[float, Float64("0+")] = 0.0
