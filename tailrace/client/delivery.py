"""The future of a record: where it was written, or why not.

A producer makes one `Delivery` for each record, so it is small: it knows its batch and its place there, and takes from
the batch what that has become. It can be awaited, by several tasks too, and given to asyncio.gather and asyncio.wait;
cancelling who awaits it does not take the record back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.client.errors import ClientError

if TYPE_CHECKING:
    from tailrace.client.producer_batch import ProducerBatch

_log = logging.getLogger("tailrace.client")


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record is now. `offset` is -1 where the broker does not tell: with acks=0, or for a duplicate it forgot.

    `timestamp` is in milliseconds since the epoch: the record's own, or that of its append (LogAppendTime).
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """What becomes of one record."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether it is known what became of the record."""
        return self._batch.place_of(self._index)[0].is_settled

    def cancelled(self) -> bool:
        """Say no: what was sent cannot be taken back."""
        return False

    def result(self) -> RecordMetadata:
        """Give the record's place, or raise why it was not written; asyncio's InvalidStateError where nobody knows."""
        batch, index = self._batch.place_of(self._index)
        if not batch.is_settled:
            raise asyncio.InvalidStateError("the record is not acknowledged yet")
        if batch.error is not None:
            raise batch.error_for(index)
        topic, partition = batch.topic_partition
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.log_append_time_ms == -1 else batch.log_append_time_ms
        return RecordMetadata(topic, partition, offset, timestamp)

    def exception(self) -> ClientError | None:
        """Give why the record was not written, or None; InvalidStateError (asyncio's) where nobody knows."""
        batch, index = self._batch.place_of(self._index)
        if not batch.is_settled:
            raise asyncio.InvalidStateError("the record is not acknowledged yet")
        return None if batch.error is None else batch.error_for(index)

    def add_done_callback(self, callback: Callable[[Delivery], object], *, context: object = None) -> None:
        """Have `callback(delivery)` called once it is known what became of the record, at once where it is already.

        Callbacks of one partition run in the order of its records. What one raises is logged and stops nothing.
        """
        batch, index = self._batch.place_of(self._index)
        if batch.is_settled:
            run_callback(callback, self)
        else:
            batch.waiters.append((index, callback, self))

    def remove_done_callback(self, callback: Callable[[Delivery], object]) -> int:
        """Forget a callback; say how many there were."""
        batch, index = self._batch.place_of(self._index)
        before = len(batch.waiters)
        batch.waiters = [waiter for waiter in batch.waiters if waiter[:2] != (index, callback)]
        return before - len(batch.waiters)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch, index = self._batch.place_of(self._index)
        if not batch.is_settled:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            batch.waiters.append((index, _wake, woken))
            yield from woken
        return self.result()

    def range(self) -> tuple[ProducerBatch, int, int]:
        """Give the record's batch and place as bulks count them: one record."""
        return self._batch, self._index, 1

    def __repr__(self) -> str:
        if not self.done():
            return f"<Delivery to {self._batch.topic_partition}: pending>"
        return f"<Delivery to {self._batch.topic_partition}: {self.exception() or self.result()}>"


def run_callback(callback: Callable[[Any], object], argument: object) -> None:
    """Call a user's function; what it raises is the user's to read in the log."""
    try:
        callback(argument)
    except Exception:  # noqa: BLE001 - a user's function may raise anything
        _log.exception("a delivery callback failed: %r", callback)


def run_waiters(waiters: Iterable[tuple[int, Callable[[Any], object], object]]) -> None:
    """Tell all who wait for a batch, in the order of its records."""
    for _, callback, argument in waiters:
        run_callback(callback, argument)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
