"""Levels of features that an administrator changes: what is granted, and that it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.feature_update import FeatureWish, UpgradeType, updated_features
from tailrace.broker.handlers import api_versions, update_features
from tailrace.broker.metadata_store import StaleMetadata
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.parts import Parts, make_parts, stop_parts

UPGRADE, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
LEVELS = {"group.version": 1, "metadata.version": 27, "transaction.version": 1}


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("group.version", 1, UPGRADE),
        ("group.version", 0, SAFE),
        ("group.version", 0, UNSAFE),
        ("transaction.version", 2, UPGRADE),
        ("transaction.version", 2, SAFE),
        ("metadata.version", 23, SAFE),
    ],
)
def test_a_level_that_is_supported_is_granted(name: str, level: int, kind: UpgradeType) -> None:
    assert updated_features(LEVELS, [FeatureWish(name, level, kind)]) == {**LEVELS, name: level}


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("group.version", 0, UPGRADE),
        ("group.version", 2, UPGRADE),
        ("group.version", -1, SAFE),
        ("group.version", 1, 0),
        ("moon.version", 1, UPGRADE),
        ("", 1, UPGRADE),
        ("metadata.version", 22, SAFE),
        ("metadata.version", 22, UNSAFE),
        ("metadata.version", 28, UPGRADE),
    ],
)
def test_one_bad_wish_refuses_all(name: str, level: int, kind: int) -> None:
    with pytest.raises(ApiError) as error:
        updated_features(LEVELS, [FeatureWish("transaction.version", 2, UPGRADE), FeatureWish(name, level, kind)])
    assert error.value.code is ErrorCode.INVALID_UPDATE_VERSION


def wish(name: str, level: int, kind: UpgradeType, *, is_trial: bool = False) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[update], validate_only=is_trial)


def told(parts: Parts) -> dict[str, int]:
    body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = parts.answer(api_versions, body, 4)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


async def test_what_is_switched_off_stays_off_over_a_restart(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    epoch = parts.metadata.features_epoch
    await parts.handle(update_features, wish("group.version", 0, SAFE, is_trial=True), 2)
    assert "group.version" in told(parts), "it was a trial"
    await parts.handle(update_features, wish("group.version", 0, SAFE), 2)
    assert "group.version" not in told(parts)
    assert parts.metadata.features_epoch == epoch + 1
    await stop_parts(parts)

    again = await make_parts(tmp_path)
    assert "group.version" not in told(again)
    await again.handle(update_features, wish("group.version", 1, UPGRADE), 1)
    assert told(again)["group.version"] == 1
    await stop_parts(again)


async def test_levels_are_not_changed_behind_anothers_back(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    before = dict(parts.metadata.features)
    with pytest.raises(StaleMetadata):
        await parts.metadata.change_features(expected={}, levels=LEVELS)
    assert parts.metadata.features == before
    await stop_parts(parts)


async def test_features_need_the_cluster(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    parts.authorizer.deny(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    with pytest.raises(ApiError) as error:
        await parts.handle(update_features, wish("group.version", 1, UPGRADE), 2)
    assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await stop_parts(parts)
