"""What a decision about a consumer group is made from, and what it amounts to.

A decision reads the group and changes nothing. Its records are written first; then they are replayed, which changes the
group, the timers are set, and the answer leaves when the records are committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from tailrace.broker.groups.assignors.assignors import ASSIGNORS
from tailrace.broker.groups.assignors.group_spec import Assignor
from tailrace.broker.groups.effects import CancelTimer, SetTimer
from tailrace.broker.groups.metadata_hash import ClusterTopics, TopicHashes
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord

if TYPE_CHECKING:  # a conversion is part of a decision, and is decided by the rules here
    from tailrace.broker.groups.group_conversion import Downgrade

R = TypeVar("R")

SESSION = "session"
REBALANCE = "rebalance"
JOIN = "join"
SYNC = "sync"
"""The kinds of timers of a member; `timer_name` has the whole name."""


def timer_name(kind: str, member_id: str) -> str:
    """Name a member's timer."""
    return f"{kind}:{member_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRules:
    """The settings that decisions go by; the first of `assignors` is the default."""

    session_timeout_ms: int = 45000
    heartbeat_interval_ms: int = 5000
    size_max: int = 2**31 - 1
    assignors: Mapping[str, Assignor] = field(default_factory=lambda: MappingProxyType(dict(ASSIGNORS)))
    regex_refresh_interval_ms: int = 600000
    may_upgrade: bool = True
    may_downgrade: bool = True
    classic_size_max: int = 2**31 - 1
    classic_initial_rebalance_delay_ms: int = 3000

    @property
    def default_assignor(self) -> str:
        """The assignor of groups whose members ask for none."""
        return next(iter(self.assignors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a decision knows besides the group: the time, the topics, the settings.

    `new_topics_version` is the version of the topics at which the last new one came; `is_resolving` whether patterns of
    the group are being matched at this moment.
    """

    now_ms: int
    cluster: ClusterTopics
    hashes: TopicHashes
    rules: ConsumerRules
    new_topics_version: int = 0
    is_resolving: bool = False


@dataclass(slots=True)
class Decision(Generic[R]):
    """See the module's docstring.

    `seen_epoch` is the group epoch at which the topics were looked at, None where they were not. `patterns` are to be
    matched with the topics now, None where nothing is. `timers_if_absent` leave a timer that runs as it is. `downgrade`
    is the classic group that takes this one's place.
    """

    records: list[CoordinatorRecord] = field(default_factory=list[CoordinatorRecord])
    response: R | None = None
    effects: list[SetTimer | CancelTimer] = field(default_factory=list["SetTimer | CancelTimer"])
    seen_epoch: int | None = None
    patterns: frozenset[str] | None = None
    timers_if_absent: list[SetTimer] = field(default_factory=list[SetTimer])
    downgrade: Downgrade | None = None
