"""The names of partition directories.

flights-3                                           the partition
flights-3.0b2c1f1d3e6c4a5e9f7a8b6c5d4e3f2a-delete   deleted, removed file.delete.delay.ms later
flights-3.0b2c1f1d3e6c4a5e9f7a8b6c5d4e3f2a-stray    of a topic that has another id now; kept for a human to look at
flights-3.0b2c1f1d3e6c4a5e9f7a8b6c5d4e3f2a-future   Kafka's copy on its way from another directory; left alone
"""

from __future__ import annotations

import re

from tailrace.protocol.topic_partition import TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's own metadata log lies beside the partitions and is none."""
_NAME_BYTES_MAX = 255
_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]{1,10})")
_MARKED = re.compile(r"[a-zA-Z0-9._-]+-[0-9]+\.[a-zA-Z0-9]+-(delete|stray|future)")


def parse_directory_name(name: str) -> TopicPartition | None:
    """Give the partition of a directory; None where the name is none of a partition in use."""
    if is_marked(name):
        return None
    match = _PARTITION.fullmatch(name)
    if match is None or match[1] == CLUSTER_METADATA_TOPIC or int(match[2]) > 0x7FFFFFFF:
        return None
    if match[2] != str(int(match[2])):
        return None  # nobody writes flights-00: it would be a second flights-0
    return TopicPartition(match[1], int(match[2]))


def is_marked(name: str) -> bool:
    """Whether the directory is deleted, stray or a future copy."""
    return _MARKED.fullmatch(name) is not None


def marked_name(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """Name a directory that is taken out of use; a long topic name is cut so that the whole fits a file system."""
    end = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: _NAME_BYTES_MAX - len(end)] + end
