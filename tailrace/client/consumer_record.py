"""What a consumer hands out: records, and offsets as they are committed and found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tailrace.protocol.records.batch_header import TimestampType
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.topic_partition import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record with the place it was read from. `timestamp` is in milliseconds since the epoch, or -1.

    A tuple, for thousands of them are made of as many columns without a line of Python for each.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: Sequence[RecordHeader] = ()
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record is in."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """An offset to commit, or that was committed: of the record that is read next."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1
