"""The coordinators are no part of a start: they come behind it, or with the first request that needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tailrace.broker.coordinators import MODULES, Coordinators
from tests.broker.parts import make_parts, stop_parts


def test_a_start_loads_neither_coordinator() -> None:
    program = "import sys, tailrace.broker.server; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "tailrace.broker.coordinators" in loaded
    assert not set(MODULES) & set(loaded)


async def test_who_asks_first_makes_them(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    coordinators = Coordinators(parts.manager, parts.broker.producer_ids)
    transactions = coordinators.transactions
    assert coordinators.groups is transactions.offsets
    assert coordinators.transactions is transactions
    await coordinators.stop()
    await stop_parts(parts)


async def test_after_a_stop_nothing_is_begun(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    timer_count = parts.clock.timer_count
    coordinators = Coordinators(parts.manager, parts.broker.producer_ids)
    await coordinators.stop()
    assert list(coordinators.groups.topic.shards()) == []
    assert parts.clock.timer_count == timer_count
    await stop_parts(parts)
