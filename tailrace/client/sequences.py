"""The sequence numbers of an idempotent producer: what makes a retry harmless, and what to do when it was not.

Pure: it is told what was sent and answered, and says what may be sent, what may be sent again, and when the epoch has
to be raised. Brokers take a partition's batches only in sequence and remember the last five; so a batch keeps its
number through every retry, and a batch behind one that is retried waits for it. Where a number is lost for good (a
batch was given up and nobody knows whether it was written) the producer raises its epoch and the partition's numbers
begin anew. The rules are those of Kafka 4.1's producer (KIP-98, KIP-360).
"""

from __future__ import annotations

from tailrace.client.producer_batch import NO_PRODUCER, SEQUENCE_MASK, ProducerBatch, ProducerId
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition

EPOCH_MAX = 2**15 - 1
_NEVER = -1


class PartitionSequences:
    """One partition's numbers. `in_flight` are the batches that have one and are not settled, in its order."""

    __slots__ = ("in_flight", "last_acked_offset", "last_acked_sequence", "next_sequence", "producer", "unresolved")

    def __init__(self, producer: ProducerId) -> None:
        self.producer = producer
        self.next_sequence = 0
        self.last_acked_sequence = _NEVER
        self.last_acked_offset = _NEVER
        self.in_flight: list[ProducerBatch] = []
        self.unresolved: int | None = None
        """The number behind a batch whose fate is not known; nothing new is sent until that is settled."""

    def is_next(self, sequence: int) -> bool:
        """Whether this is the number behind the last one that was acknowledged."""
        return sequence == ((self.last_acked_sequence + 1) & SEQUENCE_MASK)

    def restart(self, producer: ProducerId, *, is_transactional: bool) -> None:
        """Begin anew at 0, with the batches that are in flight first."""
        sequence = 0
        for batch in self.in_flight:
            batch.stamp(producer, sequence, is_transactional=is_transactional)
            batch.is_sequence_reset = True
            sequence = batch.next_sequence
        self.producer = producer
        self.next_sequence = sequence
        self.last_acked_sequence = _NEVER


class Sequences:
    """The numbers of all partitions of one producer, and the id and epoch they belong to."""

    def __init__(self, *, is_transactional: bool = False) -> None:
        self.producer = NO_PRODUCER
        self.is_transactional = is_transactional
        self.lost_sequences = False
        """In a transaction a number was lost: the transaction has to be aborted."""
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._to_restart: set[TopicPartition] = set()
        self._has_unresolved = False

    @property
    def has_producer_id(self) -> bool:
        """Whether an id was given to the producer; without one nothing can be sent."""
        return self.producer.producer_id >= 0

    def set_producer(self, producer: ProducerId, *, restart: bool = False) -> None:
        """Take a new id or epoch; with `restart`, forget all numbers, for they were of another epoch."""
        self.producer = producer
        if restart:
            self._partitions.clear()
            self._to_restart.clear()
        for partition in self._partitions.values():
            if partition.producer == NO_PRODUCER:
                partition.restart(producer, is_transactional=self.is_transactional)

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether this batch, the first in its queue, can be sent now."""
        if not self.has_producer_id:
            return False
        partition = self._partition(batch.topic_partition)
        in_flight = partition.in_flight
        if batch.has_sequence:
            return not in_flight or in_flight[0] is batch
        if partition.unresolved is not None:
            return False
        # A broker that does not know a producer takes whatever number comes first. So the first batch travels alone: if
        # it had to be sent again, one behind it could be written before it, and it would then be out of sequence.
        is_known = partition.producer == self.producer and partition.last_acked_sequence != _NEVER
        return is_known or not in_flight

    def assign(self, batch: ProducerBatch) -> None:
        """Close a batch and give it its numbers, unless it has some, and count it as in flight."""
        if batch.has_sequence:
            return
        partition = self._partition(batch.topic_partition)
        if partition.producer != self.producer and not partition.in_flight:
            partition.restart(self.producer, is_transactional=self.is_transactional)
        batch.stamp(partition.producer, partition.next_sequence, is_transactional=self.is_transactional)
        partition.next_sequence = batch.next_sequence
        partition.in_flight.append(batch)

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        """Take notice that a batch was written."""
        partition = self._partition(batch.topic_partition)
        self._forget(partition, batch)
        if batch.sent_as != (batch.producer, batch.base_sequence):
            self._close_gap(partition, batch)  # written under the numbers it had before, and so the new ones are free
            return
        if batch.producer != partition.producer:
            return
        last = (batch.next_sequence - 1) & SEQUENCE_MASK
        if partition.last_acked_sequence == _NEVER or _is_later(last, partition.last_acked_sequence):
            partition.last_acked_sequence = last
        if base_offset >= 0:
            partition.last_acked_offset = max(partition.last_acked_offset, base_offset + batch.records_count - 1)

    def can_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether a batch that was refused may be sent again; asks for a new epoch where numbers are lost."""
        partition = self._partition(batch.topic_partition)
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            return self._can_retry_unknown(batch, partition, log_start_offset)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_resolved = partition.unresolved is None
            if is_resolved and (batch.is_sequence_reset or not partition.is_next(batch.base_sequence)):
                return True  # the one before it failed, and will be sent before it again
            if self.is_transactional:
                return False
            if is_resolved or partition.unresolved == batch.base_sequence:
                self._to_restart.add(batch.topic_partition)
            return True
        if code is ErrorCode.INVALID_PRODUCER_EPOCH and batch.sent_as != (batch.producer, batch.base_sequence):
            return True  # it was the epoch before the present one
        return code.is_retriable

    def refused(self, batch: ProducerBatch, code: ErrorCode | None) -> None:
        """Take notice that a batch is given up because the broker does not want it: it is not written."""
        key = batch.topic_partition
        partition = self._partition(key)
        self._forget(partition, batch)
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            self._partitions.pop(key, None)
        elif not batch.has_sequence:
            return
        elif self.is_transactional:
            self._close_gap(partition, batch)
        else:
            self._to_restart.add(key)

    def expired(self, batch: ProducerBatch) -> None:
        """Take notice that a batch is given up, though it may have been written."""
        partition = self._partition(batch.topic_partition)
        self._forget(partition, batch)
        if batch.has_sequence and batch.producer == partition.producer:
            behind = batch.next_sequence
            if partition.unresolved is None or _is_later(behind, partition.unresolved):
                partition.unresolved = behind
                self._has_unresolved = True

    def replaced(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Count the parts of a batch in its place."""
        in_flight = self._partition(batch.topic_partition).in_flight
        if batch in in_flight:
            position = in_flight.index(batch)
            in_flight[position : position + 1] = parts

    def settle(self) -> bool:
        """Resolve what can be resolved, and raise the epoch if that is needed; say whether an id is needed."""
        if self._has_unresolved:
            self._resolve()
        if self._to_restart and not self.is_transactional and self.has_producer_id:
            self._raise_epoch()
        return not self.has_producer_id

    def _resolve(self) -> None:
        self._has_unresolved = False
        for key, partition in self._partitions.items():
            if partition.unresolved is None:
                continue
            if partition.in_flight:
                self._has_unresolved = True
                continue
            partition.unresolved = None
            if not partition.is_next(partition.next_sequence):
                if self.is_transactional:
                    self.lost_sequences = True
                else:
                    self._to_restart.add(key)

    def has_in_flight(self, topic_partition: TopicPartition) -> bool:
        """Whether batches of a partition have numbers and are not settled."""
        partition = self._partitions.get(topic_partition)
        return partition is not None and bool(partition.in_flight)

    def _raise_epoch(self) -> None:
        producer_id, epoch = self.producer
        if epoch == EPOCH_MAX:
            self.producer = NO_PRODUCER  # a new id has to be asked for; what is in flight gets its numbers then
        else:
            self.producer = ProducerId(producer_id, epoch + 1)
        for key in self._to_restart:
            partition = self._partition(key)
            partition.restart(self.producer, is_transactional=False)
            partition.unresolved = None
        self._to_restart.clear()

    def _can_retry_unknown(self, batch: ProducerBatch, partition: PartitionSequences, log_start_offset: int) -> bool:
        """The broker has forgotten the producer: because its records were deleted with time, or for no good reason."""
        if log_start_offset == -1 or batch.is_sequence_reset:
            return True
        if not self.is_transactional:
            self._to_restart.add(batch.topic_partition)
            return True
        if partition.last_acked_offset < log_start_offset:
            partition.restart(self.producer, is_transactional=True)
            return True
        return False

    def _close_gap(self, partition: PartitionSequences, failed: ProducerBatch) -> None:
        """Let the batches behind one that was refused take its numbers, which the broker has not seen."""
        if failed.producer != partition.producer or not failed.has_sequence:
            return
        partition.next_sequence = (partition.next_sequence - failed.records_count) & SEQUENCE_MASK
        for batch in partition.in_flight:
            if _is_later(batch.base_sequence, failed.base_sequence):
                moved = (batch.base_sequence - failed.records_count) & SEQUENCE_MASK
                batch.stamp(batch.producer, moved, is_transactional=self.is_transactional)
                batch.is_sequence_reset = True

    def _forget(self, partition: PartitionSequences, batch: ProducerBatch) -> None:
        if batch in partition.in_flight:
            partition.in_flight.remove(batch)

    def _partition(self, key: TopicPartition) -> PartitionSequences:
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = PartitionSequences(self.producer)
        return partition


def _is_later(sequence: int, other: int) -> bool:
    """Whether one number comes behind another, on the circle of 31 bits."""
    return 0 < ((sequence - other) & SEQUENCE_MASK) < 1 << 30
