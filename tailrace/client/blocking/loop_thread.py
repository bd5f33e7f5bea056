"""The thread that runs the event loop of all blocking clients of a process.

`acquire` starts it where it does not run, `release` ends it with its last user. After a fork the child begins without
one: threads do not survive that, and neither do the parent's clients.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from tailrace.client.errors import InvalidState

T = TypeVar("T")


class LoopThread:
    """An event loop on a thread."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="tailrace-client", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether it is this thread that asks."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its end; whoever is interrupted meanwhile cancels it."""
        if self.is_current:
            work.close()
            raise InvalidState("a callback runs on the clients' own thread, and cannot wait for what that is to do")
        done = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return done.result()
        except BaseException:  # also Ctrl-C
            done.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop."""

        async def work() -> T:
            return function()

        return self.run(work())

    def stop(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()


class _Shared:
    """The process's thread and how many use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: LoopThread | None = None
        self.users_count = 0


_shared = _Shared()


def acquire() -> LoopThread:
    """Give the thread to one more user."""
    with _shared.lock:
        if _shared.thread is None:
            _shared.thread = LoopThread()
        _shared.users_count += 1
        return _shared.thread


def release(thread: LoopThread) -> None:
    """Take it back from one."""
    with _shared.lock:
        if _shared.thread is not thread:
            return  # a fork has happened since
        _shared.users_count -= 1
        if _shared.users_count:
            return
        _shared.thread = None
    thread.stop()


def _forget() -> None:
    global _shared
    _shared = _Shared()


os.register_at_fork(after_in_child=_forget)
