"""Requests through real sockets to handlers that do as they are told: order, back-pressure, ends of connections."""

from __future__ import annotations

import logging
import struct

import pytest

from tailrace.broker.connection import WRITE_BUFFER_HIGH
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.wire import FETCH_VERSION, VERSION, connected, eventually, settled, stub_network


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        for number in range(100):
            wire.order("now", correlation_id=number)
        answers = [await wire.obeyed() for _ in range(100)]
        assert [correlation_id for correlation_id, _ in answers] == list(range(100))
        assert [answer.producer_id for _, answer in answers] == list(range(1, 101))


async def test_a_parked_request_keeps_its_place_while_later_ones_are_dispatched() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        for number, what in enumerate(["park", "now", "park", "now"]):
            wire.order(what, correlation_id=number)
        await eventually(lambda: len(stub.handlers.orders) == 4)
        first, second = stub.handlers.parked
        second.complete(InitProducerIdResponse(producer_id=222))
        await settled()
        first.complete(InitProducerIdResponse(producer_id=111))
        answers = [await wire.obeyed() for _ in range(4)]
        assert [correlation_id for correlation_id, _ in answers] == [0, 1, 2, 3]
        assert [answer.producer_id for _, answer in answers] == [111, 2, 222, 4]


async def test_nothing_is_dispatched_behind_a_coroutine_until_it_ends() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        for number, what in enumerate(["now", "slow", "now", "now"]):
            wire.order(what, correlation_id=number)
        await eventually(lambda: "slow" in stub.handlers.orders)
        await settled()
        assert stub.handlers.orders == ["now", "slow"]
        stub.handlers.release.set()
        answers = [await wire.obeyed() for _ in range(4)]
        assert [answer.producer_id for _, answer in answers] == [1, 1000, 3, 4]


async def test_a_coroutine_may_park_and_then_others_go_on() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        wire.order("slow park")
        wire.order("now")
        stub.handlers.release.set()
        await eventually(lambda: len(stub.handlers.orders) == 2)
        stub.handlers.parked[0].complete(InitProducerIdResponse(producer_id=5))
        assert [(await wire.obeyed())[1].producer_id for _ in range(2)] == [5, 2]


async def test_a_request_may_come_byte_by_byte() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        request = b"".join(encode_request(InitProducerIdRequest(), VERSION, correlation_id=9, client_id=None))
        for position in range(len(request)):
            wire.send(request[position : position + 1])
            await wire.writer.drain()
            await settled(2)
        assert (await wire.obeyed())[0] == 9


async def test_no_response_leaves_no_gap_in_the_order() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        for number, what in enumerate(["park", "nothing", "now"]):
            wire.order(what, correlation_id=number)
        await eventually(lambda: len(stub.handlers.orders) == 3)
        stub.handlers.parked[0].complete(InitProducerIdResponse())
        assert [(await wire.obeyed())[0] for _ in range(2)] == [0, 2]


@pytest.mark.parametrize("order", ["bug", "wrong", "slow bug"])
async def test_our_own_fault_is_answered_logged_and_counted(order: str, caplog: pytest.LogCaptureFixture) -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        stub.handlers.release.set()
        wire.order(order)
        wire.order("now")
        assert (await wire.obeyed())[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await wire.obeyed())[1].error_code == ErrorCode.NONE
        assert stub.metrics.unexpected_errors == {"InitProducerId": 1}
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert record.exc_info is not None
        assert "InitProducerId v4" in record.getMessage()


async def test_a_foreseen_error_is_answered_with_its_code() -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        wire.order("api error")
        assert (await wire.obeyed())[1].error_code == ErrorCode.NOT_COORDINATOR
        assert stub.metrics.known_errors == {("InitProducerId", "NOT_COORDINATOR"): 1}
        assert stub.metrics.unexpected_errors == {}


async def test_an_error_where_the_response_has_no_room_for_one_closes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with stub_network() as stub, connected(stub.port) as wire:
        stub.handlers.fetch_bytes = -1  # makes the handler raise
        wire.ask(FetchRequest(), 6)  # whose response got a place for an error in v7
        assert await wire.is_closed()
        assert stub.metrics.unexpected_errors == {"Fetch": 1}
        assert "Fetch v6 can't be answered" in caplog.text


@pytest.mark.parametrize("order", ["close", "garbage", "unknown api", "short body"])
async def test_what_ends_a_connection_waits_for_the_answers_before_it(
    order: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with stub_network() as stub, connected(stub.port) as wire:
        wire.order("park", correlation_id=7)
        if order == "close":
            wire.order("close")
        else:
            bodies = {"garbage": b"\xff" * 40, "unknown api": struct.pack(">hhih", 4, 0, 0, -1), "short body": b"abc"}
            wire.send(struct.pack(">i", len(bodies[order])) + bodies[order])
        wire.order("now")
        await eventually(lambda: len(stub.handlers.parked) == 1)
        await settled()
        stub.handlers.parked[0].complete(InitProducerIdResponse(producer_id=3))
        assert await wire.obeyed() == (7, InitProducerIdResponse(producer_id=3))
        assert await wire.is_closed()
        assert "now" not in stub.handlers.orders
        closings = [record for record in caplog.records if "is closed" in record.getMessage()]
        assert len(closings) == 1
        assert "127.0.0.1" in closings[0].getMessage()


@pytest.mark.parametrize("size", [-1, 5000, 2**31 - 1])
async def test_an_impossible_size_closes_before_any_memory_is_made_for_it(size: int) -> None:
    async with stub_network(socket_request_max_bytes="4999") as stub, connected(stub.port) as wire:
        wire.order("now")
        await wire.obeyed()
        wire.send(struct.pack(">i", size) + b"x" * 100)
        assert await wire.is_closed()
        assert stub.metrics.listeners["PLAINTEXT"].malformed == 1


async def test_a_reader_that_does_not_read_stops_its_own_connection_only() -> None:
    async with stub_network() as stub, connected(stub.port) as slow, connected(stub.port) as quick:
        stub.handlers.fetch_bytes = 1 << 20
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        count = 200
        for number in range(count):
            slow.ask(FetchRequest(), FETCH_VERSION, correlation_id=number)
        await eventually(lambda: any(connection.is_busy for connection in stub.network.connections))
        await settled(200)
        served = stub.handlers.orders.count("fetch")
        # What the kernel's socket buffers take, and the high-water mark, and one more.
        assert served < 50
        (stopped,) = [connection for connection in stub.network.connections if connection.is_busy]
        assert stopped.write_buffer_size < WRITE_BUFFER_HIGH + 2 * stub.handlers.fetch_bytes
        quick.order("now")
        await quick.obeyed()
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(count):
            correlation_id, _ = await slow.answer(FetchResponse, FETCH_VERSION)
            assert correlation_id == number
        assert stub.handlers.orders.count("fetch") == count


async def test_only_so_many_requests_of_a_connection_wait() -> None:
    async with stub_network(queued_max_requests="3") as stub, connected(stub.port) as wire:
        for number in range(10):
            wire.order("park", correlation_id=number)
        await eventually(lambda: len(stub.handlers.parked) == 3)
        await settled()
        assert len(stub.handlers.parked) == 3
        for number in range(10):
            await eventually(lambda number=number: len(stub.handlers.parked) > number)
            assert len(stub.handlers.parked) <= number + 3
            stub.handlers.parked[number].complete(InitProducerIdResponse(producer_id=number))
            assert (await wire.obeyed())[0] == number


async def test_waiting_bytes_are_limited_over_all_connections() -> None:
    async with (
        stub_network(queued_max_request_bytes="64", socket_request_max_bytes="64") as stub,
        connected(stub.port) as first,
        connected(stub.port) as second,
    ):
        for number in range(3):
            first.order("park", correlation_id=number)
        await eventually(lambda: stub.network.memory.is_full)
        second.order("now", correlation_id=5)
        await settled()
        assert stub.handlers.orders == ["park", "park"]
        stub.handlers.parked[0].complete(InitProducerIdResponse())
        assert (await first.obeyed())[0] == 0
        await eventually(lambda: "now" in stub.handlers.orders or len(stub.handlers.parked) == 3)
        for parked in (1, 2):
            await eventually(lambda parked=parked: len(stub.handlers.parked) > parked)
            stub.handlers.parked[parked].complete(InitProducerIdResponse())
            assert (await first.obeyed())[0] == parked
        assert (await second.obeyed())[0] == 5
        assert stub.network.memory.used == 0


@pytest.mark.parametrize("order", ["park", "slow", "slow park"])
async def test_an_answer_whose_client_is_gone_is_dropped(order: str, caplog: pytest.LogCaptureFixture) -> None:
    async with stub_network() as stub:
        async with connected(stub.port) as wire:
            wire.order(order)
            await eventually(lambda: stub.handlers.orders == [order])
        stub.handlers.release.set()  # nothing is read while a coroutine runs, so the end is seen after it
        await eventually(lambda: stub.metrics.listeners["PLAINTEXT"].open == 0)
        if "park" in order:
            stub.handlers.parked[0].complete(InitProducerIdResponse())
        await eventually(lambda: sum(stub.metrics.requests["InitProducerId"].total_time.counts) == 1)
        assert stub.network.memory.used == 0
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_completing_twice_is_a_bug_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with stub_network() as stub, connected(stub.port) as wire:
        wire.order("park")
        await eventually(lambda: len(stub.handlers.parked) == 1)
        parked = stub.handlers.parked[0]
        parked.complete(InitProducerIdResponse(producer_id=1))
        parked.complete(InitProducerIdResponse(producer_id=2))
        parked.fail(RuntimeError("late"))
        assert (await wire.obeyed())[1].producer_id == 1
        assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


async def test_draining_answers_what_waits_and_begins_nothing() -> None:
    async with stub_network() as stub, connected(stub.port) as busy, connected(stub.port) as idle:
        busy.order("park", correlation_id=1)
        idle.order("now")
        await idle.obeyed()
        await eventually(lambda: len(stub.handlers.parked) == 1)
        stub.network.stop_accepting()
        stub.network.begin_drain()
        assert await idle.is_closed()
        busy.order("now", correlation_id=2)
        assert not await stub.network.drained(1)
        stub.handlers.parked[0].complete(InitProducerIdResponse(producer_id=4))
        assert await stub.network.drained(5000)
        assert await busy.obeyed() == (1, InitProducerIdResponse(producer_id=4))
        assert await busy.is_closed()
        assert stub.handlers.orders.count("now") == 1
