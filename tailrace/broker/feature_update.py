"""Which levels the cluster's features get when an administrator changes them (KIP-584, KIP-778).

Pure: what is finalized and what is wished go in, what is finalized afterwards comes out. A wish that can't be granted
refuses all wishes of its request. Level 0 stays in the map: the feature is known here and switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from tailrace.broker.features import METADATA_VERSION, SUPPORTED_FEATURES
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError

UNCHANGED_METADATA_VERSION_FIRST = 23
"""From this level to the newest one Kafka's metadata says the same; below it a downgrade would lose some of it."""


class UpgradeType(IntEnum):
    """In which direction a level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureWish(NamedTuple):
    """One feature's new level."""

    name: str
    level: int
    upgrade_type: int


def updated_features(finalized: Mapping[str, int], wishes: Iterable[FeatureWish]) -> dict[str, int]:
    """Give the levels after all wishes; raise ApiError where one can't be granted."""
    levels = dict(finalized)
    for wish in wishes:
        reason = _refusal(levels, wish)
        if reason is not None:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"No feature was updated: {wish.name or 'a feature without a name'} can't get level {wish.level}: "
                f"{reason}",
            )
        levels[wish.name] = wish.level
    return levels


def _refusal(levels: Mapping[str, int], wish: FeatureWish) -> str | None:
    """Say what is wrong with a wish."""
    supported = SUPPORTED_FEATURES.get(wish.name)
    if wish.upgrade_type not in tuple(UpgradeType):
        return f"there are no updates of type {wish.upgrade_type}."
    if supported is None:
        return "it is not known here."
    if wish.level not in supported:
        return f"levels {supported.first} to {supported.last} are supported."
    present = levels.get(wish.name, 0)
    if wish.level < present and wish.upgrade_type == UpgradeType.UPGRADE:
        return f"it has level {present}, and the update is no downgrade."
    is_lossy = wish.name == METADATA_VERSION and wish.level < UNCHANGED_METADATA_VERSION_FIRST
    if is_lossy and wish.level < present:
        return "the downgrade would lose metadata."
    return None
