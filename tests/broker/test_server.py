"""A whole broker in this process: starts, answers, refuses what it can't do, and stops in good order."""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tailrace.broker.handlers import metadata as metadata_handler
from tailrace.broker.served_apis import SERVED_APIS
from tailrace.broker.server import START_ERRORS, BrokerServer
from tailrace.clock import SystemClock
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.settings.broker_config import BrokerConfig
from tests.broker.parts import batch, sole
from tests.broker.wire import Wire, connected, eventually


def make_server(folder: Path, **texts: str) -> BrokerServer:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(folder),
        "tailrace.metrics.port": "-1",
        **{key.replace("_", "."): text for key, text in texts.items()},
    }
    return BrokerServer(BrokerConfig(settings), SystemClock())


@asynccontextmanager
async def running(folder: Path, **texts: str) -> AsyncIterator[BrokerServer]:
    server = make_server(folder, **texts)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def create_topic(wire: Wire, name: str) -> None:
    wire.ask(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]), 6)
    _, answer = await wire.answer(CreateTopicsResponse, 6)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]


async def produce(wire: Wire, name: str, *values: bytes, acks: int = -1) -> int:
    data = PartitionProduceData(index=0, records=bytes(batch(*values)))
    topic = TopicProduceData(name=name, partition_data=[data])
    wire.ask(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic]), 9)
    _, answer = await wire.answer(ProduceResponse, 9)
    partition = sole(answer)
    assert partition.error_code == ErrorCode.NONE
    return partition.base_offset


def ask_for_records(wire: Wire, name: str, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1) -> None:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    wire.ask(
        FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[FetchTopic(topic=name, partitions=[partition])]
        ),
        11,
    )


async def records_of(wire: Wire) -> bytes:
    _, answer = await wire.answer(FetchResponse, 11, header_version=0)
    ((data,),) = [topic.partitions for topic in answer.responses]
    assert data.error_code == ErrorCode.NONE
    assert data.records is not None
    return bytes(data.records)


async def test_what_was_produced_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as server, connected(server.ports["PLAINTEXT"]) as wire:
        await create_topic(wire, "flights")
        assert await produce(wire, "flights", b"one", b"two") == 0
        cluster_id = server.broker.cluster_id
    async with running(tmp_path) as server, connected(server.ports["PLAINTEXT"]) as wire:
        assert server.broker.cluster_id == cluster_id
        assert await produce(wire, "flights", b"three") == 2
        ask_for_records(wire, "flights", 0)
        records = await records_of(wire)
        assert b"one" in records
        assert b"three" in records


async def test_clients_are_told_the_port_that_was_free(tmp_path: Path) -> None:
    async with running(tmp_path) as server, connected(server.ports["PLAINTEXT"]) as wire:
        wire.ask(MetadataRequest(topics=[]), 9)
        _, answer = await wire.answer(MetadataResponse, 9)
        assert [(broker.host, broker.port) for broker in answer.brokers] == [("127.0.0.1", server.ports["PLAINTEXT"])]
        assert answer.controller_id == server.broker.node_id


async def test_a_parked_fetch_is_answered_when_the_broker_stops(tmp_path: Path) -> None:
    server = make_server(tmp_path)
    await server.start()
    async with connected(server.ports["PLAINTEXT"]) as wire, connected(server.ports["PLAINTEXT"]) as idle:
        await create_topic(wire, "flights")
        ask_for_records(wire, "flights", 0, max_wait_ms=60_000, min_bytes=100)
        await eventually(lambda: server.broker.replica_manager.fetch_purgatory.delayed_count == 1)
        await server.stop()
        assert await records_of(wire) == b""
        assert await wire.is_closed()
        assert await idle.is_closed()


async def test_a_produce_that_waits_for_the_disk_is_finished_before_the_stop(tmp_path: Path) -> None:
    server = make_server(tmp_path, log_flush_interval_messages="1")
    await server.start()
    async with connected(server.ports["PLAINTEXT"]) as wire:
        await create_topic(wire, "flights")
        writing = asyncio.ensure_future(produce(wire, "flights", b"one"))
        await eventually(lambda: any(log.log_end_offset == 1 for log in server.broker.log_manager.logs.values()))
        await server.stop()
        assert await writing == 0


async def test_a_fetch_is_woken_by_a_produce_on_another_connection(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as server,
        connected(server.ports["PLAINTEXT"]) as producer,
        connected(server.ports["PLAINTEXT"]) as consumer,
    ):
        await create_topic(producer, "flights")
        ask_for_records(consumer, "flights", 0, max_wait_ms=60_000)
        await eventually(lambda: server.broker.replica_manager.fetch_purgatory.delayed_count == 1)
        await produce(producer, "flights", b"woken")
        assert b"woken" in await records_of(consumer)


async def test_stopping_twice_or_before_a_start_does_nothing(tmp_path: Path) -> None:
    server = make_server(tmp_path)
    await server.stop()
    await server.start()
    await server.stop()
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        async with connected(server.ports["PLAINTEXT"]):
            pass


async def test_a_second_broker_on_the_same_directory_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path):
        second = make_server(tmp_path)
        with pytest.raises(START_ERRORS, match="in use by another broker"):
            await second.start()
        port = second.ports["PLAINTEXT"]
        with socket.create_server(("127.0.0.1", port)):
            pass  # the port that the second one had bound is free again
    async with running(tmp_path) as third:
        assert third.ports["PLAINTEXT"] > 0


async def test_a_port_in_use_is_heard_of_before_the_directory_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = make_server(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{port}")
        with pytest.raises(START_ERRORS, match=f"can't listen on PLAINTEXT://127.0.0.1:{port}"):
            await server.start()
        assert not (tmp_path / "data").exists()


async def test_a_metrics_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = make_server(tmp_path, tailrace_metrics_port=str(port))
        with pytest.raises(START_ERRORS, match=f"can't serve metrics on 127.0.0.1:{port}"):
            await server.start()


async def test_a_listener_we_do_not_speak_is_refused(tmp_path: Path) -> None:
    server = make_server(tmp_path, listeners="PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:1")
    with pytest.raises(START_ERRORS, match="SASL_PLAINTEXT"):
        await server.start()


async def test_a_bug_in_a_handler_is_answered_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as server, connected(server.ports["PLAINTEXT"]) as wire:

        def broken(*_: object) -> None:
            raise RuntimeError("nobody foresaw this")

        monkeypatch.setattr(metadata_handler, "handle", broken)
        wire.ask(MetadataRequest(topics=[]), 9)
        await wire.answer(MetadataResponse, 9)
        assert server.broker.metrics.unexpected_errors == {"Metadata": 1}
        assert any(record.exc_info for record in caplog.records if record.levelno == logging.ERROR)


def test_every_served_api_has_a_handler_that_can_say_an_error() -> None:
    for key in SERVED_APIS:
        module = importlib.import_module(f"tailrace.broker.handlers.{key.api.module_name}")
        assert callable(module.handle)
        assert callable(module.error_response), key
