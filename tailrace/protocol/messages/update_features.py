"""UpdateFeatures (key 57): versions 0-2, flexible from 0.

v0: finalizes the level of a feature (KIP-584)
v1: validate only, and safe or unsafe downgrades (KIP-778)
v2: one error for the request, no results for single features
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: Annotated[int, Int32("0+")] = 60000
    feature_updates: Annotated[list[FeatureUpdateKey], Array("0+")] = field(default_factory=empty_list)
    validate_only: Annotated[bool, Bool("1+")] = False


class FeatureUpdateKey(WireStruct):
    feature: Annotated[str, String("0+")] = ""
    max_version_level: Annotated[int, Int16("0+")] = 0
    allow_downgrade: Annotated[bool, Bool("0")] = False
    upgrade_type: Annotated[int, Int8("1+")] = 1


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    results: Annotated[list[UpdatableFeatureResult], Array("0-1", ignorable=True)] = field(default_factory=empty_list)


class UpdatableFeatureResult(WireStruct):
    feature: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
