"""The seams that handlers stand on: parked answers, the authorizer, quotas, and the clock that a test turns."""

from __future__ import annotations

import asyncio

import pytest

from tailrace.broker.authorizer import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AllowAllAuthorizer,
    ResourceType,
    authorized_operations,
)
from tailrace.broker.connection_limits import RequestMemory
from tailrace.broker.quotas import UnlimitedQuotas
from tailrace.broker.request import ANONYMOUS, NO_RESPONSE, ConnectionInfo, Parked
from tailrace.testing.virtual_clock import EPOCH_MS, VirtualClock

CONNECTION = ConnectionInfo(id="1", listener_name="PLAINTEXT")


def test_a_parked_answer_is_told_once_to_each_listener() -> None:
    told: list[object] = []
    parked = Parked()
    parked.add_done_callback(lambda done: told.append(done.answer))
    assert not parked.is_done
    parked.complete(NO_RESPONSE)
    parked.add_done_callback(lambda done: told.append(done.answer))
    assert told == [NO_RESPONSE, NO_RESPONSE]


def test_a_parked_failure_is_told() -> None:
    told: list[object] = []
    parked = Parked()
    parked.add_done_callback(lambda done: told.append(done.error))
    error = RuntimeError("gone")
    parked.fail(error)
    assert told == [error]
    assert parked.is_done


def test_parked_requests_are_told_apart() -> None:
    assert Parked() != Parked()


def test_the_principal_prints_as_kafka_writes_it() -> None:
    assert str(CONNECTION.principal) == str(ANONYMOUS) == "User:ANONYMOUS"


def test_allowing_all_is_every_operation_of_a_resource() -> None:
    authorizer = AllowAllAuthorizer()
    assert authorizer.authorize(CONNECTION, AclOperation.WRITE, ResourceType.TOPIC, "flights")
    # What Apache Kafka 4.1 answers to an admin client that asks for authorized operations.
    assert authorized_operations(authorizer, CONNECTION, ResourceType.TOPIC, "flights") == 0b1101_1111_1000
    assert authorized_operations(authorizer, CONNECTION, ResourceType.CLUSTER, CLUSTER_NAME) == 0b1_1111_1010_0000
    assert AclOperation.DELETE in SUPPORTED_OPERATIONS[ResourceType.GROUP]


def test_only_what_is_allowed_gets_its_bit() -> None:
    class ReadersOnly:
        def authorize(self, connection: ConnectionInfo, operation: AclOperation, *_: object) -> bool:
            return operation is AclOperation.READ

    assert authorized_operations(ReadersOnly(), CONNECTION, ResourceType.TOPIC, "t") == 1 << AclOperation.READ


def test_without_quotas_nobody_waits() -> None:
    quotas = UnlimitedQuotas()
    assert quotas.record_produce(CONNECTION, "a", 1 << 40) == 0
    assert quotas.record_fetch(CONNECTION, None, 1 << 40) == 0
    assert quotas.record_request(CONNECTION, "a") == 0
    assert quotas.record_controller_mutations(CONNECTION, "a", 10_000) == 0


@pytest.mark.parametrize("size_max", [-1, 0])
def test_request_memory_without_a_limit_is_never_full(size_max: int) -> None:
    memory = RequestMemory(size_max)
    memory.acquire(1 << 50)
    assert not memory.is_full


def test_request_memory_calls_those_who_wait_in_their_order() -> None:
    memory = RequestMemory(10)
    called: list[str] = []
    memory.acquire(10)
    memory.acquire(5)
    memory.wait(lambda: (called.append("first"), memory.acquire(10)))
    memory.wait(lambda: called.append("second"))
    memory.release(5)
    assert called == []
    memory.release(10)
    assert called == ["first"]
    memory.release(10)
    assert called == ["first", "second"]


def test_the_virtual_clock_runs_timers_at_their_moments() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, int]] = []

    def note(name: str) -> None:
        seen.append((name, clock.time_ms() - EPOCH_MS))

    clock.call_later(20, lambda: note("second"))
    clock.call_later(10, lambda: (note("first"), clock.call_later(5, lambda: note("from within"))))
    clock.call_later(15, lambda: note("cancelled")).cancel()
    clock.call_later(31, lambda: note("too late"))
    assert clock.advance(30) == 3
    assert seen == [("first", 10), ("from within", 15), ("second", 20)]
    assert clock.monotonic() == 0.03
    assert clock.timer_count == 1


async def test_tasks_sleep_on_the_virtual_clock() -> None:
    clock = VirtualClock()
    seen: list[int] = []

    async def every_week() -> None:
        for _ in range(3):
            await clock.sleep(7 * 86_400_000)
            seen.append(clock.time_ms())

    task = asyncio.ensure_future(every_week())
    await clock.advance_async(22 * 86_400_000)
    assert seen == [EPOCH_MS + week * 7 * 86_400_000 for week in (1, 2, 3)]
    assert task.done()
