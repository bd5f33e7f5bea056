"""Many records at once: the future of a list or of an Arrow table that was sent, and how sending it can end halfway.

What is given in bulk does not linger and is not limited to batch.size: its batches are as large as max.request.size
allows, because whoever has so many records wants them written with the least work. Order holds with what `send` was
given before and after. How the batches are made is `bulk_appender`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.client.delivery import Delivery
from tailrace.client.errors import ClientError
from tailrace.client.producer_batch import ProducerBatch

Range = tuple[ProducerBatch, int, int]
"""A batch, the place of the first record in it, and how many records."""


class BulkInterrupted(ClientError):
    """Some records of a bulk were taken when the rest could not be; the cause says why.

    `delivery` is of those that were taken; `rows` are the places of those that were not, from 0.
    """

    def __init__(self, message: str, delivery: BulkDelivery, rows: list[int]) -> None:
        super().__init__(message)
        self.delivery = delivery
        self.rows = rows


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """Records that lie behind each other in one partition; `offset` is the first one's, -1 where it is not told.

    `timestamp` is that of their append where the topic has LogAppendTime, else -1.
    """

    topic: str
    partition: int
    offset: int
    records_count: int
    timestamp: int = -1


class BulkDelivery:
    """What becomes of many records. Await it for the ranges where they were written, in the order they were given."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._ranges = list(ranges)

    @property
    def records_count(self) -> int:
        """How many records were given."""
        return sum(count for _, _, count in self._ranges)

    def done(self) -> bool:
        """Whether it is known of every record what became of it."""
        return all(batch.is_settled for batch, _, _ in self._places())

    def exception(self) -> ClientError | None:
        """Give why the first record that was not written was not, or None; asyncio's InvalidStateError before."""
        self._check()
        return next((batch.error for batch, _, _ in self._places() if batch.error is not None), None)

    def result(self) -> list[WrittenRange]:
        """Give where the records are, or raise why one of them is nowhere; asyncio's InvalidStateError before."""
        error = self.exception()
        if error is not None:
            raise error
        return list(self.written())

    def written(self) -> Iterator[WrittenRange]:
        """Give where the records are that were written, whatever became of the others."""
        self._check()
        for batch, first, count in self._places():
            if batch.error is None:
                offset = batch.base_offset + first if batch.base_offset >= 0 else -1
                topic, partition = batch.topic_partition
                yield WrittenRange(topic, partition, offset, count, batch.log_append_time_ms)

    def add_done_callback(self, callback: Callable[[BulkDelivery], object]) -> None:
        """Have `callback(delivery)` called once it is known of every record what became of it."""
        self._when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, list[WrittenRange]]:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._when_done(lambda: None if woken.done() else woken.set_result(None))
        yield from woken
        return self.result()

    def _when_done(self, tell: Callable[[], object]) -> None:
        """Tell when the last batch is settled; batches may be split meanwhile, so look again after each."""
        pending = next(((batch, first) for batch, first, _ in self._places() if not batch.is_settled), None)
        if pending is None:
            tell()
        else:
            batch, first = pending
            batch.waiters.append((first, lambda _: self._when_done(tell), None))

    def _check(self) -> None:
        if not self.done():
            raise asyncio.InvalidStateError("the records are not all acknowledged yet")

    def _places(self) -> Iterator[Range]:
        for batch, first, count in self._ranges:
            yield from _leaves(batch, first, count)


async def send_one_by_one(send: Callable[[int], Awaitable[Delivery]], count: int) -> BulkDelivery:
    """Send a bulk as single records, by their places: past interceptors, which look at each."""
    ranges: list[Range] = []
    for place in range(count):
        try:
            ranges.append((await send(place)).range())
        except ClientError as error:
            if not ranges:
                raise
            left = list(range(place, count))
            raise BulkInterrupted(f"{len(left)} records were not taken: {error}", BulkDelivery(ranges), left) from error
    return BulkDelivery(ranges)


def _leaves(batch: ProducerBatch, first: int, count: int) -> Iterator[Range]:
    """Give the batches in which a range of records is now, after splits."""
    if batch.parts is None:
        yield batch, first, count
        return
    for start, part in batch.parts:
        low, high = max(first, start), min(first + count, start + part.records_count)
        if part.parts is not None or low < high:
            yield from _leaves(part, low - start, high - low)
