"""The checker finds each anomaly where there is one, and none where there is none."""

from __future__ import annotations

import random

import pytest

from tests.history.checker import find_anomalies
from tests.history.operations import Ended, Operation, Polled, Sent

P = ("t", 0)


def sent(value: int, offset: int | None, process: str = "p", transaction: str | None = None) -> Sent:
    return Sent(process, P, value, offset, transaction)


def polled(*records: tuple[int, int], process: str = "c", generation: int = 0) -> Polled:
    return Polled(process, P, generation, records)


GOOD: list[Operation] = [sent(1, 0), sent(2, 1), polled((0, 1)), sent(3, 2), polled((1, 2), (2, 3))]


def test_a_good_history_has_no_anomaly() -> None:
    assert find_anomalies(GOOD) == {}


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("lost write", [sent(1, 0), sent(2, 1), polled((1, 2))]),
        ("unseen", [sent(1, 0), sent(2, 1), polled((0, 1))]),
        ("duplicate", [sent(1, 0), polled((0, 1), (1, 1))]),
        ("inconsistent offsets", [sent(1, 0), polled((0, 2))]),
        ("aborted read", [sent(1, 0, transaction="x"), Ended("x", False), polled((0, 1))]),
        (
            "poll skip",
            [sent(1, 0), sent(2, 1), sent(3, 2), polled((0, 1), (1, 2), (2, 3)), polled((0, 1), (2, 3), process="d")],
        ),
        ("non-monotonic poll", [sent(1, 0), sent(2, 1), polled((0, 1), (1, 2)), polled((0, 1))]),
        ("non-monotonic send", [sent(1, 1), sent(2, 0), polled((0, 2), (1, 1))]),
    ],
)
def test_each_anomaly_is_found(name: str, history: list[Operation]) -> None:
    assert name in find_anomalies(history)


def test_a_new_generation_may_begin_anywhere() -> None:
    again = polled((0, 1), (1, 2), generation=1)
    assert find_anomalies([*GOOD, again]) == {}


def test_what_an_aborted_transaction_wrote_need_not_be_seen() -> None:
    history = [sent(1, 0, transaction="x"), Ended("x", False), sent(2, 2, transaction="y"), Ended("y", True)]
    assert find_anomalies([*history, polled((2, 2))]) == {}


def test_a_record_of_unknown_fate_may_be_seen_or_not() -> None:
    assert find_anomalies([sent(1, 0), polled((0, 1), (1, 77))]) == {}


def test_a_broken_log_is_found_whatever_was_broken() -> None:
    chance = random.Random(1)
    for _ in range(200):
        log = list(range(30))
        history: list[Operation] = [sent(value, offset) for offset, value in enumerate(log)]
        kind = chance.choice(["drop", "twice", "swap"])
        at = chance.randrange(1, 28)
        if kind == "drop":
            del log[at]
        elif kind == "twice":
            log.insert(at, log[at])
        else:
            log[at], log[at + 1] = log[at + 1], log[at]
        history.append(polled(*enumerate(log)))
        assert find_anomalies(history), f"{kind} at {at} was not seen"
