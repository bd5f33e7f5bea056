"""Delayed operations: tried, watched, expired, completed once; held against a model that scans everything."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from tailrace.broker.purgatory import HEAP_SIZE_MIN, DelayedOperation, DelayedOperationPurgatory
from tailrace.testing.virtual_clock import VirtualClock


class Operation(DelayedOperation):
    def __init__(self, timeout_ms: float = 100, *, is_ready: bool = False, name: int = 0) -> None:
        super().__init__(timeout_ms)
        self.is_ready = is_ready
        self.name = name
        self.tries = 0
        self.events: list[str] = []
        self.raises: Exception | None = None

    def try_complete(self) -> bool:
        self.tries += 1
        if self.raises is not None:
            raise self.raises
        return self.force_complete() if self.is_ready else False

    def on_complete(self) -> None:
        self.events.append("complete")

    def on_expiration(self) -> None:
        self.events.append("expire")

    def on_failure(self, error: Exception) -> None:
        self.events.append(f"fail {error}")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def purgatory(clock: VirtualClock) -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory("test", clock)


def assert_is_empty(purgatory: DelayedOperationPurgatory) -> None:
    assert (purgatory.watched_count, purgatory.delayed_count) == (0, 0)
    assert purgatory.watchers == {}


def test_a_ready_operation_is_never_watched(purgatory: DelayedOperationPurgatory) -> None:
    operation = Operation(is_ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.events == ["complete"]
    assert_is_empty(purgatory)
    assert purgatory.timer_entry_count == 0


def test_it_completes_by_any_of_its_keys_and_leaves_the_others(purgatory: DelayedOperationPurgatory) -> None:
    operation = Operation()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b", "a"])
    assert (purgatory.watched_count, purgatory.delayed_count) == (2, 1)
    assert purgatory.check_and_complete("a") == 0
    operation.is_ready = True
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    assert operation.events == ["complete"]
    assert_is_empty(purgatory)


def test_it_expires_once_at_its_deadline(clock: VirtualClock, purgatory: DelayedOperationPurgatory) -> None:
    operation = Operation(timeout_ms=100)
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.advance(99)
    assert operation.events == []
    clock.advance(1)
    assert operation.events == ["complete", "expire"]
    operation.is_ready = True
    assert purgatory.check_and_complete("a") == 0
    clock.advance(1000)
    assert operation.events == ["complete", "expire"]
    assert purgatory.expired_count == 1
    assert_is_empty(purgatory)


def test_a_completed_operation_does_not_expire(clock: VirtualClock, purgatory: DelayedOperationPurgatory) -> None:
    operation = Operation(timeout_ms=100)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete()
    assert not operation.force_complete()
    clock.advance(200)
    assert operation.events == ["complete"]
    assert purgatory.expired_count == 0


def test_an_earlier_deadline_moves_the_timer_forward(clock: VirtualClock, purgatory: DelayedOperationPurgatory) -> None:
    late, early = Operation(timeout_ms=1000), Operation(timeout_ms=10)
    purgatory.try_complete_else_watch(late, ["a"])
    purgatory.try_complete_else_watch(early, ["a"])
    assert clock.timer_count == 1
    clock.advance(10)
    assert early.events == ["complete", "expire"]
    assert late.events == []
    clock.advance(990)
    assert late.events == ["complete", "expire"]


def test_one_that_raises_is_given_up_and_harms_no_other(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = Operation(), Operation()
    purgatory.try_complete_else_watch(broken, ["a", "b"])
    purgatory.try_complete_else_watch(sound, ["a"])
    broken.raises = RuntimeError("log is gone")
    sound.is_ready = True
    assert purgatory.check_and_complete("a") == 2
    assert broken.events == ["fail log is gone"]
    assert sound.events == ["complete"]
    assert purgatory.failed_count == 1
    assert "log is gone" in caplog.text
    assert_is_empty(purgatory)


def test_an_operation_may_complete_another_while_it_completes(purgatory: DelayedOperationPurgatory) -> None:
    second = Operation()

    class First(Operation):
        def on_complete(self) -> None:
            super().on_complete()
            second.force_complete()

    first = First()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(second, ["a"])
    first.is_ready = True
    assert purgatory.check_and_complete("a") == 1
    assert second.events == ["complete"]
    assert_is_empty(purgatory)


def test_expire_all_ends_everything_in_the_order_of_deadlines(
    clock: VirtualClock, purgatory: DelayedOperationPurgatory
) -> None:
    order: list[int] = []

    class Ordered(Operation):
        def on_expiration(self) -> None:
            order.append(self.name)

    for name, timeout_ms in enumerate([300, 100, 200]):
        purgatory.try_complete_else_watch(Ordered(timeout_ms, name=name), [name])
    assert purgatory.expire_all() == 3
    assert order == [1, 2, 0]
    assert clock.timer_count == 0
    assert_is_empty(purgatory)


def test_done_operations_do_not_pile_up_in_the_timer(purgatory: DelayedOperationPurgatory) -> None:
    for _ in range(20 * HEAP_SIZE_MIN):
        operation = Operation(timeout_ms=30_000)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.force_complete()
    assert purgatory.timer_entry_count <= HEAP_SIZE_MIN + 1
    assert_is_empty(purgatory)


class Model:
    """The same rules without any structure: every question scans all operations."""

    def __init__(self) -> None:
        self.waiting: dict[Operation, tuple[float, int, set[Hashable]]] = {}
        self.count = 0

    def watch(self, operation: Operation, deadline: float, keys: set[Hashable]) -> None:
        self.count += 1
        self.waiting[operation] = (deadline, self.count, keys)

    def check(self, key: Hashable) -> list[Operation]:
        done = [one for one, (_, _, keys) in self.waiting.items() if key in keys and one.is_ready]
        for one in done:
            del self.waiting[one]
        return done

    def turn(self, now: float) -> list[Operation]:
        due = sorted((entry[:2], one.name) for one, entry in self.waiting.items() if entry[0] <= now)
        names = [name for _, name in due]
        gone = [one for one in self.waiting if one.name in names]
        for one in gone:
            del self.waiting[one]
        return gone


@pytest.mark.parametrize("seed", range(20))
def test_it_does_what_a_model_without_structure_does(seed: int) -> None:
    chance = random.Random(seed)
    clock = VirtualClock()
    purgatory = DelayedOperationPurgatory("simulated", clock)
    model = Model()
    every: list[Operation] = []
    for step in range(600):
        action = chance.random()
        if action < 0.45:
            operation = Operation(chance.randrange(0, 300), is_ready=chance.random() < 0.1, name=step)
            keys = {chance.randrange(8) for _ in range(chance.randrange(1, 4))}
            every.append(operation)
            done = purgatory.try_complete_else_watch(operation, keys)
            assert done == operation.is_ready
            if not done:
                model.watch(operation, round(clock.monotonic() * 1000) + operation.timeout_ms, set(keys))
        elif action < 0.6 and every:
            chance.choice(every).is_ready = True
        elif action < 0.85:
            key = chance.randrange(8)
            expected = model.check(key)
            assert purgatory.check_and_complete(key) == len(expected)
            assert all(one.events == ["complete"] for one in expected)
        else:
            clock.advance(chance.randrange(0, 60))
            expired = model.turn(round(clock.monotonic() * 1000))
            assert all(one.events == ["complete", "expire"] for one in expired)
        assert purgatory.delayed_count == len(model.waiting)
        assert purgatory.watched_count == sum(len(keys) for _, _, keys in model.waiting.values())
    assert purgatory.expire_all() == len(model.waiting)
    assert all(one.events.count("complete") == 1 for one in every)
