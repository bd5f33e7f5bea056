"""UpdateFeatures: v0-v2 (KIP-584). v1: trials, and kinds of downgrades (KIP-778). v2: no results of single features.

Who allows a downgrade in the words of v0 gets none: for Kafka 4.1 it is an upgrade, as the kind of v1 is by default.
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.feature_update import FeatureWish, updated_features
from tailrace.broker.metadata_store import StaleMetadata
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

RESULTS_VERSION_LAST = 1
NO_ERROR = "NONE"


async def handle(broker: Broker, request: Request[UpdateFeaturesRequest]) -> Answer:
    """Give each feature its new level, all or none."""
    if not broker.authorizer.authorize(request.connection, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wishes = [
        FeatureWish(update.feature, update.max_version_level, update.upgrade_type)
        for update in request.body.feature_updates
    ]
    await _update(broker, wishes, is_trial=request.body.validate_only)
    results: list[UpdatableFeatureResult] = []
    if request.api_version <= RESULTS_VERSION_LAST:
        results = [UpdatableFeatureResult(feature=wish.name, error_message=NO_ERROR) for wish in wishes]
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    return UpdateFeaturesResponse(throttle_time_ms=throttle, error_message=None, results=results)


def error_response(request: Request[UpdateFeaturesRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)


async def _update(broker: Broker, wishes: list[FeatureWish], *, is_trial: bool) -> None:
    while True:
        present = dict(broker.metadata.features)
        after = updated_features(present, wishes)
        if is_trial or after == present:
            return
        try:
            await broker.metadata.change_features(expected=present, levels=after)
        except StaleMetadata:
            continue
        return
