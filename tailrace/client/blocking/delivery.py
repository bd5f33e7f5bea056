"""The future of a record that was handed over to the clients' thread.

It has the methods of a concurrent.futures.Future that can be of use, and costs a tenth of one: nothing is made for
waiting until somebody waits. It is done when the asyncio producer's delivery is, which it reads from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tailrace.client.blocking.loop_thread import LoopThread
from tailrace.client.delivery import Delivery, RecordMetadata, run_callback
from tailrace.client.errors import InvalidState


class BlockingDelivery:
    """What becomes of one record."""

    __slots__ = ("_callbacks", "_error", "_placed", "_thread")

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._placed: Delivery | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[BlockingDelivery], object]] | None = None

    def done(self) -> bool:
        """Whether it is known what became of the record."""
        return self._error is not None or (self._placed is not None and self._placed.done())

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for so many seconds, None for as long as it takes; give the record's place, or raise why it has none.

        TimeoutError where nobody knows yet. The producer gives every record up after delivery.timeout.ms at the latest.
        """
        placed = self._wait(timeout)
        if self._error is not None:
            raise self._error
        assert placed is not None, "a delivery without an error has a place"
        return placed.result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait likewise; give why the record was not written, or None."""
        placed = self._wait(timeout)
        return self._error if placed is None else placed.exception()

    def add_done_callback(self, callback: Callable[[BlockingDelivery], object]) -> None:
        """Have `callback(delivery)` called on the clients' thread once it is known what became of the record.

        It is called at once, on this thread, where that is known already.
        """
        if self.done():
            run_callback(callback, self)
        else:
            self._thread.loop.call_soon_threadsafe(self._add, callback)

    def place(self, placed: Delivery) -> None:
        """The record is in a batch. On the clients' thread."""
        self._placed = placed
        for callback in self._take_callbacks():
            self._add(callback)

    def fail(self, error: BaseException) -> None:
        """The record never came into a batch. On the clients' thread."""
        self._error = error
        for callback in self._take_callbacks():
            run_callback(callback, self)

    def _add(self, callback: Callable[[BlockingDelivery], object]) -> None:
        if self._placed is not None:
            self._placed.add_done_callback(lambda _: run_callback(callback, self))
        elif self._error is not None:
            run_callback(callback, self)
        else:
            self._callbacks = [*(self._callbacks or ()), callback]

    def _take_callbacks(self) -> list[Callable[[BlockingDelivery], object]]:
        callbacks, self._callbacks = self._callbacks, None
        return callbacks or []

    def _wait(self, timeout: float | None) -> Delivery | None:
        if not self.done():
            if self._thread.is_current:
                raise InvalidState("a callback runs on the clients' own thread, and cannot wait for what that is to do")
            known = threading.Event()
            self.add_done_callback(lambda _: known.set())
            if not known.wait(timeout):
                raise TimeoutError(f"the record was not acknowledged in {timeout:g} s")
        return self._placed

    def __repr__(self) -> str:
        if self._error is not None:
            return f"<BlockingDelivery: {self._error!r}>"
        return f"<BlockingDelivery: {'on its way' if self._placed is None else self._placed}>"
