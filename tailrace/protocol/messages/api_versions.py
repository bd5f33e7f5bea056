"""ApiVersions (key 18): versions 0-4, flexible from 3.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: the client's name and version (KIP-511); supported and finalized features (KIP-584)
v4: features whose lowest version is 0 are shown, too (KAFKA-17011)
A version that the broker does not know is answered with UNSUPPORTED_VERSION and a body of v0. The header of the
answer is v0 in every version.
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: Annotated[str, String("3+", ignorable=True)] = ""
    client_software_version: Annotated[str, String("3+", ignorable=True)] = ""


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    error_code: Annotated[int, Int16("0+")] = 0
    api_keys: Annotated[list[ApiVersion], Array("0+")] = field(default_factory=empty_list)
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Array("3+", tag=0, tagged="3+", ignorable=True)] = field(
        default_factory=empty_list
    )
    finalized_features_epoch: Annotated[int, Int64("3+", tag=1, tagged="3+", ignorable=True)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Array("3+", tag=2, tagged="3+", ignorable=True)] = field(
        default_factory=empty_list
    )
    zk_migration_ready: Annotated[bool, Bool("3+", tag=3, tagged="3+", ignorable=True)] = False


class ApiVersion(WireStruct):
    api_key: Annotated[int, Int16("0+")] = 0
    min_version: Annotated[int, Int16("0+")] = 0
    max_version: Annotated[int, Int16("0+")] = 0


class SupportedFeatureKey(WireStruct):
    name: Annotated[str, String("3+")] = ""
    min_version: Annotated[int, Int16("3+")] = 0
    max_version: Annotated[int, Int16("3+")] = 0


class FinalizedFeatureKey(WireStruct):
    name: Annotated[str, String("3+")] = ""
    max_version_level: Annotated[int, Int16("3+")] = 0
    min_version_level: Annotated[int, Int16("3+")] = 0
