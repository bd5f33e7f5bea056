"""What is asked of the cluster's features: their levels, and what is refused at a lower one."""

from __future__ import annotations

from typing import Any

from tests.compat.every_version.conversation import Conversation, versions_of

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
GROUP, METADATA, TRANSACTION = "group.version", "metadata.version", "transaction.version"
WISHES: dict[str, list[tuple[str, int, int]]] = {
    "of nothing": [],
    "to what it is": [(GROUP, 1, UPGRADE)],
    "to what it is, twice": [(GROUP, 1, UPGRADE), (GROUP, 1, UPGRADE)],
    "to what it is, downwards": [(GROUP, 1, SAFE_DOWNGRADE)],
    "downwards": [(GROUP, 0, SAFE_DOWNGRADE)],
    "downwards, unsafely": [(TRANSACTION, 1, UNSAFE_DOWNGRADE)],
    "downwards without saying so": [(GROUP, 0, UPGRADE)],
    "too high": [(GROUP, 7, UPGRADE)],
    "below zero": [(GROUP, -1, SAFE_DOWNGRADE)],
    "of no such feature": [("moon.version", 1, UPGRADE)],
    "of no name": [("", 1, UPGRADE)],
    "of two, one of them unknown": [(GROUP, 1, UPGRADE), ("moon.version", 1, UPGRADE)],
    "of no such kind": [(GROUP, 1, 9)],
    "of an unknown kind": [(GROUP, 1, 0)],
    "of the metadata, a little": [(METADATA, 23, SAFE_DOWNGRADE)],
    "of the metadata, with loss": [(METADATA, 22, SAFE_DOWNGRADE)],
    "of the metadata, unsafely": [(METADATA, 22, UNSAFE_DOWNGRADE)],
    "of the metadata, too far": [(METADATA, 1, UNSAFE_DOWNGRADE)],
}


def ask_all(talk: Conversation) -> None:
    for version in versions_of("UpdateFeatures"):
        for title, wishes in WISHES.items():
            # The first version has no trials, but no downgrades either: nothing changes.
            update(talk, version, title, wishes, validateOnly=True)
    switched_off(talk)


def switched_off(talk: Conversation) -> None:
    """Without its feature the consumer protocol is refused, and it comes back with it."""
    update(talk, 1, "group.version off", [(GROUP, 0, SAFE_DOWNGRADE)])
    wait_for_levels(talk, {METADATA: 27, TRANSACTION: 2})
    consumer_protocol(talk, "while it is off")
    update(talk, 2, "transaction.version lower", [(TRANSACTION, 1, SAFE_DOWNGRADE)])
    wait_for_levels(talk, {METADATA: 27, TRANSACTION: 1})
    update(talk, 1, "both back", [(GROUP, 1, UPGRADE), (TRANSACTION, 2, UPGRADE)])
    wait_for_levels(talk, {GROUP: 1, METADATA: 27, TRANSACTION: 2})
    consumer_protocol(talk, "when it is back")


def consumer_protocol(talk: Conversation, when: str) -> None:
    talk.ask("ConsumerGroupHeartbeat", 1, when, groupId="features", memberId="m", memberEpoch=-1)
    talk.ask("ConsumerGroupDescribe", 1, when, groupIds=["features"])


def wait_for_levels(talk: Conversation, levels: dict[str, int]) -> None:
    """Kafka's broker hears of new levels some time after they are finalized."""

    def are_told(answer: Any) -> bool:
        return levels == {feature["name"]: feature["maxVersionLevel"] for feature in answer["finalizedFeatures"]}

    talk.until(are_told, "ApiVersions", 4, clientSoftwareName="compat", clientSoftwareVersion="1.0")


def update(talk: Conversation, version: int, title: str, wishes: list[tuple[str, int, int]], **fields: Any) -> None:
    updates = [
        {"feature": name, "maxVersionLevel": level, "upgradeType": kind, "allowDowngrade": kind == SAFE_DOWNGRADE}
        for name, level, kind in wishes
    ]
    talk.ask("UpdateFeatures", version, title, featureUpdates=updates, timeoutMs=5_000, **fields)
