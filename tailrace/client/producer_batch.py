"""A batch of a producer: the records of one partition that travel, succeed and fail together.

It is open while records are added, closed when its bytes are made, and settled once it is known what became of it; then
it keeps only what its deliveries ask for. A batch that was too large for the broker is split: its parts take its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tailrace.client.delivery import run_waiters
from tailrace.client.errors import BrokerError, ClientError
from tailrace.protocol.records.batch_header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    read_batch_header,
    set_producer,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.writer import BatchBuilder, record_size_bound
from tailrace.protocol.topic_partition import TopicPartition

SEQUENCE_MASK = 0x7FFFFFFF


class ProducerId(NamedTuple):
    """What brokers know an idempotent producer by."""

    producer_id: int
    epoch: int


NO_PRODUCER = ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Builder(Protocol):
    """What makes a batch's bytes."""

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        ...

    @property
    def records_count(self) -> int:
        """How many records it has."""
        ...

    def finish(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> bytearray | memoryview:
        """Give the batch; the builder is spent."""
        ...


class ProducerBatch:
    """Records of one partition. `reserved_bytes` of the buffer belong to it until it is settled."""

    __slots__ = (
        "attempts_count",
        "base_offset",
        "base_sequence",
        "builder",
        "created_at",
        "data",
        "error",
        "is_sequence_reset",
        "is_settled",
        "log_append_time_ms",
        "not_before",
        "parts",
        "producer",
        "record_errors",
        "records_count",
        "reserved_bytes",
        "sent_as",
        "topic_partition",
        "waiters",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        created_at: float,
        reserved_bytes: int,
        builder: Builder,
    ) -> None:
        self.topic_partition = topic_partition
        self.created_at = created_at
        self.reserved_bytes = reserved_bytes
        self.builder: Builder | None = builder
        self.data: bytearray | memoryview | None = None
        self.records_count = 0
        """How many records it has, once it is closed."""
        self.attempts_count = 0
        self.not_before = 0.0
        self.producer = NO_PRODUCER
        self.base_sequence = NO_SEQUENCE
        self.is_sequence_reset = False
        self.sent_as: tuple[ProducerId, int] = (NO_PRODUCER, NO_SEQUENCE)
        """The id and number of the copy that is or was on its way."""
        self.waiters: list[tuple[int, Callable[[Any], object], Any]] = []
        self.is_settled = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: ClientError | None = None
        self.record_errors: dict[int, str] = {}
        self.parts: list[tuple[int, ProducerBatch]] | None = None

    @property
    def size(self) -> int:
        """Bytes it has at the moment: before compression while it is open."""
        if self.builder is not None:
            return self.builder.size
        return 0 if self.data is None else len(self.data)

    @property
    def has_sequence(self) -> bool:
        """Whether sequence numbers were given to its records."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """The sequence number of the record behind it."""
        return (self.base_sequence + self.records_count) & SEQUENCE_MASK

    def close(self) -> None:
        """Make its bytes, compressed; nothing can be added any more."""
        if self.builder is not None:
            self.records_count = self.builder.records_count
            self.data = self.builder.finish()
            self.builder = None

    def stamp(self, producer: ProducerId, base_sequence: int, *, is_transactional: bool) -> None:
        """Write who sends it and its sequence numbers, closing it; into a copy, if other bytes may be on their way."""
        self.producer = producer
        self.base_sequence = base_sequence
        builder = self.builder
        if builder is not None:
            self.records_count = builder.records_count
            self.builder = None
            self.data = builder.finish(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=base_sequence,
                is_transactional=is_transactional,
            )
            return
        assert self.data is not None, "a batch has its builder or its bytes until it is settled"
        if self.attempts_count:
            self.data = bytearray(self.data)
        set_producer(
            self.data,
            0,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=base_sequence,
            transactional=is_transactional,
        )

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        """Let every record know its place."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._settle()

    def fail(self, error: ClientError, record_errors: dict[int, str] | None = None) -> None:
        """Let every record know that it was not written, as far as is known, and some of them why."""
        self.error = error
        self.record_errors = record_errors or {}
        self._settle()

    def error_for(self, index: int) -> ClientError:
        """Give the error of one record: its own reason, where the broker named the records that it refused."""
        assert self.error is not None, "asked for the error of a batch that has none"
        if not self.record_errors or not isinstance(self.error, BrokerError):
            return self.error
        own = self.record_errors.get(index)
        reason = own or "another record of its batch was refused: " + next(iter(self.record_errors.values()))
        return type(self.error)(self.error.code, reason)

    def place_of(self, index: int) -> tuple[ProducerBatch, int]:
        """Give the batch that has a record now, and its place there."""
        batch = self
        while batch.parts is not None:
            first, part = max((entry for entry in batch.parts if entry[0] <= index), key=lambda entry: entry[0])
            batch, index = part, index - first
        return batch, index

    def split(self, bytes_max: int, compression: Compression, level: int | None) -> list[ProducerBatch]:
        """Divide it into batches of `bytes_max` before compression, or of one record, with the numbers it had."""
        assert self.data is not None, "only what was sent is split"
        header = read_batch_header(self.data)
        builders: list[BatchBuilder] = []
        for record in read_batch(self.data, 0, header):
            size = record_size_bound(record.key, record.value, record.headers)
            if not builders or builders[-1].size + size > bytes_max:
                builders.append(BatchBuilder(compression=compression, level=level))
            builders[-1].append(record.timestamp, record.key, record.value, record.headers)
        parts: list[tuple[int, ProducerBatch]] = []
        first = 0
        for builder in builders:
            part = ProducerBatch(self.topic_partition, created_at=self.created_at, reserved_bytes=0, builder=builder)
            part.close()
            if self.has_sequence:
                sequence = (self.base_sequence + first) & SEQUENCE_MASK
                part.stamp(self.producer, sequence, is_transactional=header.is_transactional)
            parts.append((first, part))
            first += part.records_count
        parts[0][1].reserved_bytes = self.reserved_bytes
        for index, callback, argument in self.waiters:
            place, (first, part) = index, max((p for p in parts if p[0] <= index), key=lambda entry: entry[0])
            part.waiters.append((place - first, callback, argument))
        self.waiters = []
        self.data = None
        self.parts = parts
        return [part for _, part in parts]

    def _settle(self) -> None:
        self.is_settled = True
        self.builder = self.data = None
        waiters, self.waiters = self.waiters, []
        run_waiters(waiters)
