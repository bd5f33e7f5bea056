"""The memory that a producer's batches may take, and the queue of those who wait for some (buffer.memory).

First come, first served: who asks for little does not overtake who asks for much, or that one would never get it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tailrace.client.deadline import within
from tailrace.client.errors import BufferExhausted, ClientClosed
from tailrace.clock import Clock


class BufferMemory:
    """Counts bytes; it holds none."""

    __slots__ = ("_clock", "_is_closed", "_waiting", "available_bytes", "total_bytes")

    def __init__(self, total_bytes: int, clock: Clock) -> None:
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self._clock = clock
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_closed = False

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for memory: then batches are sent without lingering."""
        return bool(self._waiting)

    @property
    def waiters_count(self) -> int:
        """How many wait for memory."""
        return len(self._waiting)

    def try_reserve(self, size: int) -> bool:
        """Take memory that is there, unless others wait for it already."""
        if self._waiting or size > self.available_bytes:
            return False
        self.available_bytes -= size
        return True

    async def reserve(self, size: int, timeout_ms: float) -> None:
        """Take memory, waiting for it; BufferExhausted after `timeout_ms`, ClientClosed where the producer ends."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, granted)
        self._waiting.append(entry)
        exhausted = BufferExhausted(
            f"no {size} of the {self.total_bytes} bytes of buffer.memory became free in max.block.ms, {timeout_ms:g} ms"
        )
        try:
            await within(self._clock, timeout_ms, granted, exhausted)
        except BaseException:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.release(size)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._grant()
            raise

    def release(self, size: int) -> None:
        """Give memory back, and let those have it who have waited longest."""
        self.available_bytes += size
        assert self.available_bytes <= self.total_bytes, "more memory was given back than was taken"
        self._grant()

    def close(self) -> None:
        """Send everybody away who waits."""
        self._is_closed = True
        while self._waiting:
            _, granted = self._waiting.popleft()
            if not granted.done():
                granted.set_exception(ClientClosed("the producer is closed"))

    def _grant(self) -> None:
        while self._waiting:
            size, granted = self._waiting[0]
            if granted.done():
                self._waiting.popleft()
                continue
            if size > self.available_bytes:
                return
            self._waiting.popleft()
            self.available_bytes -= size
            granted.set_result(None)
