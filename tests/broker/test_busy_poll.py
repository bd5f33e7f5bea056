"""For whom the loop stays awake, and for how long."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.broker.busy_poll import EXPECTED_COUNT, BusyPoll, Habit
from tailrace.testing.virtual_clock import VirtualClock

WAIT_MAX_S = 0.0003
SOON_S = 0.0001


class Loop:
    """What the busy poll has to do next."""

    def __init__(self, wait_max_s: float = WAIT_MAX_S) -> None:
        self.clock = VirtualClock()
        self.ready: list[Callable[[], None]] = []
        self.busy_poll = BusyPoll(self.clock, self.ready.append, wait_max_s)
        self.habit = Habit(self.busy_poll)

    def ask(self, after_s: float) -> None:
        self.clock.advance(after_s * 1000)
        now = self.clock.monotonic()
        self.habit.answered(now, now)

    def turn(self) -> None:
        callbacks, self.ready[:] = list(self.ready), []
        for callback in callbacks:
            callback()


def test_a_peer_that_asks_as_soon_as_it_is_answered_is_waited_for() -> None:
    loop = Loop()
    for _ in range(EXPECTED_COUNT):
        assert not loop.ready
        loop.ask(SOON_S)
    loop.ask(SOON_S)
    assert len(loop.ready) == 1


def test_the_loop_is_awake_for_so_long_and_no_longer() -> None:
    loop = Loop()
    for _ in range(EXPECTED_COUNT + 1):
        loop.ask(SOON_S)
    loop.clock.advance(0.29)
    loop.turn()
    assert len(loop.ready) == 1
    loop.clock.advance(0.02)
    loop.turn()
    assert not loop.ready


def test_each_answer_begins_the_wait_anew_with_one_callback() -> None:
    loop = Loop()
    for _ in range(EXPECTED_COUNT + 20):
        loop.ask(SOON_S)
        loop.turn()
    assert len(loop.ready) == 1


def test_a_peer_that_thinks_or_pipelines_or_waits_for_its_answer_is_not_waited_for() -> None:
    for pause_s in (0.001, 0.000005):
        loop = Loop()
        for _ in range(3 * EXPECTED_COUNT):
            loop.ask(pause_s)
        assert not loop.ready
    loop = Loop()
    for _ in range(3 * EXPECTED_COUNT):
        loop.ask(SOON_S)
        loop.habit.is_left_waiting()
    assert not loop.ready


def test_it_can_be_turned_off() -> None:
    loop = Loop(wait_max_s=0)
    for _ in range(3 * EXPECTED_COUNT):
        loop.ask(SOON_S)
    assert not loop.ready
