"""Waiting with a deadline of the client's clock, so that a test can turn it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import TypeVar

from tailrace.client.errors import OperationTimedOut
from tailrace.clock import Clock
from tailrace.settings.client_config import ClientConfig

T = TypeVar("T")

JITTER = 0.2
"""How far a backoff is spread, so that clients that failed together do not come back together."""


async def within(clock: Clock, timeout_ms: float, awaitable: Awaitable[T], timed_out: Exception) -> T:
    """Await something for `timeout_ms` at most, then cancel it and raise `timed_out`."""
    task = asyncio.ensure_future(awaitable)
    is_over = False

    def expire() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = clock.call_later(timeout_ms, expire)
    try:
        return await task
    except asyncio.CancelledError:
        if is_over and task.cancelled():
            raise timed_out from None
        task.cancel()
        raise
    finally:
        timer.cancel()


class Backoff:
    """The pauses between the attempts of one operation: doubling, spread, and over when its time is."""

    def __init__(self, clock: Clock, config: ClientConfig, random: Random, *, timeout_ms: int, what: str) -> None:
        self._clock = clock
        self._random = random
        self._what = what
        self._timeout_ms = timeout_ms
        self._deadline = clock.monotonic() + timeout_ms / 1000
        self._pause_ms = float(config.retry_backoff_ms)
        self._pause_ms_max = float(config.retry_backoff_max_ms)

    async def pause(self, error: Exception) -> None:
        """Wait before the next attempt; OperationTimedOut, caused by `error`, where there is no time for one."""
        pause_ms = self._pause_ms * self._random.uniform(1 - JITTER, 1 + JITTER)
        if self._clock.monotonic() + pause_ms / 1000 > self._deadline:
            raise OperationTimedOut(f"{self._what}: gave up after {self._timeout_ms} ms: {error}") from error
        self._pause_ms = min(self._pause_ms * 2, self._pause_ms_max)
        await self._clock.sleep(pause_ms)
