"""Which names a topic may have, and which topics the cluster keeps for itself.

The rules are Kafka's: 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', and neither "." nor "..", because a
partition's directory bears the name. Two names that differ only in '.' and '_' collide: metrics write both alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError

LENGTH_MAX = 249

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Apache Kafka's own log of metadata: not a topic that anybody may have, though its directory looks like one."""

INTERNAL_TOPICS = frozenset((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC))
"""Topics that the coordinators write and clients only read."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION where no topic may be called `name`; the message says why."""
    problem = _problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may be called `name`."""
    return _problem(name) is None


def is_internal(name: str) -> bool:
    """Whether the topic belongs to a coordinator."""
    return name in INTERNAL_TOPICS


def colliding_topic(name: str, topics: Iterable[str]) -> str | None:
    """Find an existing topic that `name` differs from in nothing but '.' and '_'."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    for other in topics:
        if other != name and other.replace(".", "_") == folded:
            return other
    return None


def _problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"'{name}' is no name for a directory"
    if len(name) > LENGTH_MAX:
        return f"'{name}' has {len(name)} characters, more than {LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
