"""The whole conversation, in the order in which one part builds on another's topics and groups."""

from __future__ import annotations

from typing import Any

from tests.compat.every_version import (
    administration_script,
    features_script,
    groups_script,
    hostile_script,
    records_script,
    security_script,
    transactions_script,
)
from tests.compat.every_version.conversation import Conversation

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "log.retention.check.interval.ms": "3600000"}
"""How a broker is started for it."""


def converse(port: int) -> dict[str, Any]:
    """Ask a broker that was just started everything, and give its answers by the titles of the questions."""
    with Conversation(port) as talk:
        records_script.ask_all(talk)
        records_script.find_coordinators(talk)
        administration_script.ask_all(talk)
        security_script.ask_all(talk)
        groups_script.ask_all(talk)
        transactions_script.ask_all(talk)
        features_script.ask_all(talk)
        hostile_script.ask_all(talk)
        return talk.answers
