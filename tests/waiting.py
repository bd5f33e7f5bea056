"""Waiting for a condition with a deadline, the one way in which tests wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

DEADLINE_S = 30.0
_INTERVAL_S = 0.01


def wait_for(condition: Callable[[], object], what: str = "the condition", deadline_s: float = DEADLINE_S) -> None:
    """Ask again until the condition holds; fail when the deadline passes."""
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not so within {deadline_s} s"
        pause.wait(_INTERVAL_S)


async def until(condition: Callable[[], object], what: str = "the condition", deadline_s: float = DEADLINE_S) -> None:
    """The same on an event loop, which goes on meanwhile."""
    deadline = time.monotonic() + deadline_s
    never = asyncio.get_running_loop().create_future()
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not so within {deadline_s} s"
        await asyncio.wait([never], timeout=_INTERVAL_S)
    never.cancel()
