"""Which partitions a query reads: those that are assigned, those of some topics, or those of topics by pattern.

Pure. The pattern is one of Java's, as the official connector takes it, and has to match a topic's whole name. What
Java and Python write alike goes through; Java's way of quoting and of naming groups is translated, and what has no
counterpart is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.client.metadata import TopicMetadata
from tailrace.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics, also those that are added later."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose names match, also of topics that are created later."""

    pattern: str


TopicSelection = Assign | Subscribe | SubscribePattern


def topics_of(selection: TopicSelection) -> list[str] | None:
    """Give the topics to ask metadata for; None asks for all of them."""
    match selection:
        case Assign(partitions):
            return sorted({topic for topic, _ in partitions})
        case Subscribe(topics):
            return sorted(set(topics))
        case SubscribePattern():
            return None


def select(selection: TopicSelection, topics: Mapping[str, TopicMetadata]) -> set[TopicPartition]:
    """Choose the partitions to read among those that there are. The cluster's own topics match no pattern."""
    match selection:
        case Assign(partitions):
            return set(partitions)
        case Subscribe(names):
            chosen = [topics[name] for name in names]
        case SubscribePattern(pattern):
            expression = compile_pattern(pattern)
            chosen = [topic for name, topic in topics.items() if expression.fullmatch(name) and not topic.error_code]
            chosen = [topic for topic in chosen if not topic.is_internal]
    return {TopicPartition(topic.name, number) for topic in chosen for number in topic.partitions}


_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_JAVA_ONLY: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\[pPhHvVRXGzZ]|&&|\[[^\]]*(?<!\\)\[)")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile one of Java's patterns; ValueError says what in it has no meaning here."""
    quoted = _QUOTED.sub(lambda found: re.escape(found[1]), pattern)
    found = _JAVA_ONLY.search(quoted)
    if found is not None:
        raise ValueError(f"the pattern '{pattern}' has {found[1]!r}, which only Java's patterns have")
    try:
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", quoted))
    except re.error as error:
        raise ValueError(f"the pattern '{pattern}' cannot be read: {error}") from error
