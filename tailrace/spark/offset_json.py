"""Offsets as JSON, in the form that Spark's own Kafka connector reads and writes: `{"flights":{"0":23,"1":-1}}`.

Pure. Options are given so, and checkpoints hold it, so a checkpoint can move from one connector to the other. An offset
of -2 is the earliest, -1 the latest; in a checkpoint there are real offsets only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tailrace.protocol.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetDocument = dict[str, dict[str, int]]


def offset_document(offsets: Mapping[TopicPartition, int]) -> OffsetDocument:
    """Give offsets as the document that Spark keeps: partitions by topic, both in order."""
    document: OffsetDocument = {}
    for topic, partition in sorted(offsets):
        document.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return document


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Give offsets as text without spaces, as the official connector has it in its checkpoints."""
    return json.dumps(offset_document(offsets), separators=(",", ":"), ensure_ascii=False)


def offsets_in(document: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read a document that Spark kept."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }


def read_offsets(text: str, example: str = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}') -> Offsets:
    """Read offsets, or timestamps, that a user gave; ValueError shows how they have to look."""
    document = _parse(text, example)
    offsets: Offsets = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise _unexpected(example, text)
        for partition, offset in cast("dict[str, Any]", partitions).items():
            if not partition.isdecimal() or type(offset) is not int:
                raise _unexpected(example, text)
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def read_assignment(text: str) -> list[TopicPartition]:
    """Read the partitions of the option `assign`: `{"topicA":[0,1],"topicB":[2,4]}`."""
    example = '{"topicA":[0,1],"topicB":[0,1]}'
    assigned: list[TopicPartition] = []
    for topic, partitions in _parse(text, example).items():
        if not isinstance(partitions, list):
            raise _unexpected(example, text)
        for partition in cast("list[object]", partitions):
            if type(partition) is not int or partition < 0:
                raise _unexpected(example, text)
            assigned.append(TopicPartition(topic, partition))
    return assigned


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """Give partitions as they are named in messages: `flights-0, flights-1`."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))


def _parse(text: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise _unexpected(example, text) from error
    if not isinstance(document, dict):
        raise _unexpected(example, text)
    return cast("dict[str, Any]", document)


def _unexpected(example: str, text: str) -> ValueError:
    return ValueError(f"Expected e.g. {example}, got {text}")
