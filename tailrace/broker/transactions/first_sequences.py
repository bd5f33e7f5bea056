"""The sequence number with which a producer begins in a partition, while the coordinator is being asked about it.

A log that knows nothing of a producer accepts any sequence number, because earlier batches may have been deleted. When
the first batch of a transaction is refused for a moment (the coordinator loads) and the second one is not, the second
would be taken for the first. So the lowest number that was tried is remembered until a batch is appended, and none
above it may begin. A producer of transactions v2 begins every epoch, so an unknown one must begin with 0 (KIP-890).
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition

KEPT_MAX = 10_000
"""Beginnings that never came to an append are forgotten from here on, the oldest first."""


@dataclass(slots=True)
class _Beginning:
    producer_epoch: int
    lowest_sequence: int
    must_be_zero: bool


class FirstSequences:
    """See the module's docstring; one for all partitions of a broker."""

    __slots__ = ("_beginnings",)

    def __init__(self) -> None:
        self._beginnings: dict[tuple[TopicPartition, int], _Beginning] = {}

    def __len__(self) -> int:
        return len(self._beginnings)

    def tried(
        self, partition: TopicPartition, producer: ProducerIdAndEpoch, sequence: int, *, must_be_zero: bool
    ) -> None:
        """Note that a batch wants to begin a transaction here."""
        key = (partition, producer.producer_id)
        known = self._beginnings.get(key)
        if known is None or producer.producer_epoch > known.producer_epoch:
            self._beginnings[key] = _Beginning(producer.producer_epoch, sequence, must_be_zero)
            if len(self._beginnings) > KEPT_MAX:
                del self._beginnings[next(iter(self._beginnings))]
        elif producer.producer_epoch == known.producer_epoch and sequence < known.lowest_sequence:
            known.lowest_sequence = sequence

    def check(self, partition: TopicPartition, producer_id: int, sequence: int, *, is_known_to_log: bool) -> None:
        """Raise OUT_OF_ORDER_SEQUENCE_NUMBER where a batch with a lower number has to come first."""
        known = self._beginnings.get((partition, producer_id))
        if known is None:
            return
        expected = 0 if known.must_be_zero and not is_known_to_log else known.lowest_sequence
        if sequence > expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins with sequence {sequence} in {partition}, {expected} was to come first",
            )

    def appended(self, partition: TopicPartition, producer_id: int) -> None:
        """Forget a beginning: from now on the log knows what comes next."""
        self._beginnings.pop((partition, producer_id), None)
