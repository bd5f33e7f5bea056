"""ApiVersions: v0-v4, the first request of every client.

v1: throttle time. v3: flexible, client software name and version (KIP-511), features (KIP-584). v4: features whose
lowest level is 0. The response's header is v0 in every version, and a version above 4 is answered with error 35 in a v0
body that names ApiVersions alone (the dispatcher calls `unsupported_version`, because such a body can't be read).
"""

from __future__ import annotations

import re

from tailrace.broker.broker import Broker
from tailrace.broker.features import supported_features
from tailrace.broker.request import Request
from tailrace.broker.served_apis import advertised_versions
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

CLIENT_SOFTWARE_VERSION_FIRST = 3
_SOFTWARE_WORD = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, request: Request[ApiVersionsRequest]) -> ApiVersionsResponse:
    """Answer with the APIs and features that are served; remember what software the client is."""
    body = request.body
    if request.api_version >= CLIENT_SOFTWARE_VERSION_FIRST:
        if not (_is_software_word(body.client_software_name) and _is_software_word(body.client_software_version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        _remember_software(broker, request)
    metadata = broker.metadata
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=int(key), min_version=versions.first, max_version=versions.last)
            for key, versions in advertised_versions().items()
        ],
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
            for name, levels in supported_features(request.api_version)
        ],
        finalized_features_epoch=metadata.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in metadata.features.items()
            if level > 0
        ],
    )


def error_response(request: Request[ApiVersionsRequest], code: ErrorCode, message: str | None) -> ApiVersionsResponse:
    """Answer with an error and nothing else; the response has no room for a message."""
    return ApiVersionsResponse(error_code=code)


def unsupported_version() -> ApiVersionsResponse:
    """Answer a version that is not served: the client reads it as v0 and asks again with one that is."""
    versions = ApiVersionsRequest.versions
    own = ApiVersion(api_key=18, min_version=versions.first, max_version=versions.last)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])


def _is_software_word(text: str) -> bool:
    return _SOFTWARE_WORD.fullmatch(text) is not None


def _remember_software(broker: Broker, request: Request[ApiVersionsRequest]) -> None:
    """Count the connection under its client software; a client may say it again, and otherwise."""
    connection = request.connection
    if connection.client_software is not None:
        broker.metrics.client_disconnected(connection.client_software)
    connection.client_software = (request.body.client_software_name, request.body.client_software_version)
    broker.metrics.client_connected(connection.client_software)
