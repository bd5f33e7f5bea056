"""CPU of one produce and one fetch request inside the broker: decode, handle, encode; no socket.

    python -m bench.hot_path [--profile produce|fetch] [--requests N]

It prints microseconds a request for the shapes that matter: one record with acks=all, with an idempotent producer, a
batch of a hundred, and a fetch in a session that finds one record; and, through connections without sockets, a fetch
that is parked together with the produce request that answers it. The rest of a request is the event loop's.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.loopback import NoTransport
from tailrace.broker.connection import Connection, ConnectionSettings
from tailrace.broker.connection_limits import RequestMemory
from tailrace.broker.dispatch import Call, Dispatcher
from tailrace.broker.metrics import ListenerMetrics
from tailrace.clock import SystemClock
from tailrace.protocol.codec import decode_message
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tests.broker.parts import CONNECTION, Parts, make_parts, stop_parts

PRODUCE_VERSION = 10
FETCH_VERSION = 12
SIZE_BYTES = 4
HEADER_BYTES = 5

Run = Callable[[int], None]


def request_frame(message: ProduceRequest | FetchRequest, version: int) -> memoryview:
    chunks = encode_request(message, version, correlation_id=7, client_id="bench")
    return memoryview(bytearray(b"".join(chunks)))[SIZE_BYTES:]


def produce_frame(records: bytearray, acks: int) -> memoryview:
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name="bench", partition_data=data)]
    return request_frame(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION)


def records_of(count: int, size: int, **options: int) -> bytearray:
    return write_batch([Record(index, 1_700_000_000_000, None, b"x" * size) for index in range(count)], **options)


def producing(dispatcher: Dispatcher, records: bytearray, acks: int) -> Run:
    """A decoded frame is patched in place by the log, so each request gets its own copy, as from a socket."""
    frame = bytes(produce_frame(records, acks))
    monotonic = time.monotonic

    def run(count: int) -> None:
        for _ in range(count):
            dispatcher.dispatch(memoryview(bytearray(frame)), CONNECTION, monotonic())
            dispatcher.count_answered()

    return run


def producing_idempotently(dispatcher: Dispatcher, producer_id: int) -> Run:
    sequence = 0

    def run(count: int) -> None:
        nonlocal sequence
        frames = []
        for _ in range(count):
            records = records_of(1, 100, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            frames.append(produce_frame(records, -1))
            sequence += 1
        started = time.process_time()
        for frame in frames:
            dispatcher.dispatch(frame, CONNECTION, time.monotonic())
            dispatcher.count_answered()
        run.seconds = time.process_time() - started  # type: ignore[attr-defined]  # what was measured without the making

    return run


def fetch_frame(
    offset: int, session_id: int = 0, session_epoch: int = -1, min_bytes: int = 1, max_wait_ms: int = 0
) -> memoryview:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=200, current_leader_epoch=0)
    topics = [FetchTopic(topic="bench", partitions=[asked])]
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
    )
    return request_frame(request, FETCH_VERSION)


def fetching(dispatcher: Dispatcher, *, end_offset: int) -> Run:
    """One of the last records each time, in a session whose epoch goes on: what a consumer at the tail asks."""
    opened = dispatcher.dispatch(fetch_frame(0, session_epoch=0), CONNECTION, time.monotonic())
    assert opened is not None
    assert not isinstance(opened, Call)
    answer = memoryview(b"".join(opened))[SIZE_BYTES + HEADER_BYTES :]
    session_id = decode_message(FetchResponse, FETCH_VERSION, answer).session_id
    epoch = 0

    def run(count: int) -> None:
        nonlocal epoch
        frames = [fetch_frame(end_offset - 1 - i % 8, session_id, epoch + i + 1) for i in range(count)]
        epoch += count
        started = time.process_time()
        for frame in frames:
            dispatcher.dispatch(frame, CONNECTION, time.monotonic())
            dispatcher.count_answered()
        run.seconds = time.process_time() - started  # type: ignore[attr-defined]  # what was measured without the making

    return run


def answering_parked_fetches(parts: Parts, dispatcher: Dispatcher) -> Run:
    """What a record costs from end to end: a consumer's fetch at the end of the log waits, and a record comes."""
    log = parts.partition("bench").log
    producer, consumer = connection_without_socket(dispatcher), connection_without_socket(dispatcher)
    produced = whole_frame(produce_frame(records_of(1, 100), -1))

    def run(count: int) -> None:
        end_offset = log.log_end_offset
        frames = [whole_frame(fetch_frame(end_offset + i, max_wait_ms=500)) for i in range(count)]
        started = time.process_time()
        for frame in frames:
            receive(consumer, frame)
            receive(producer, produced)
        run.seconds = time.process_time() - started  # type: ignore[attr-defined]  # what was measured without the making
        assert not consumer.is_busy, "a fetch was not answered"

    return run


def connection_without_socket(dispatcher: Dispatcher) -> Connection:
    settings = ConnectionSettings(
        dispatcher=dispatcher,
        clock=SystemClock(),
        memory=RequestMemory(-1),
        metrics=ListenerMetrics(),
        request_size_max=1 << 20,
        pending_count_max=500,
    )
    connection = Connection(settings, CONNECTION, lambda _: None)
    connection.connection_made(NoTransport())
    return connection


def receive(connection: Connection, frame: bytes) -> None:
    connection.get_buffer(-1)[: len(frame)] = frame
    connection.buffer_updated(len(frame))


def whole_frame(frame: memoryview) -> bytes:
    return len(frame).to_bytes(SIZE_BYTES, "big") + bytes(frame)


def measure(name: str, run: Run, requests: int) -> None:
    run(requests // 10)
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        run(requests)
        best = min(best, getattr(run, "seconds", time.process_time() - started))
    print(f"{name:44} {best / requests * 1e6:6.2f} us")


async def bench(requests: int, profiled: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts: Parts = await make_parts(Path(folder) / "data", clock=SystemClock())
        await parts.create_topic("bench")
        dispatcher = Dispatcher(parts.broker)
        runs: dict[str, Run] = {
            "produce, one record of 100 B, acks=all": producing(dispatcher, records_of(1, 100), -1),
            "produce, one record of 100 B, acks=1": producing(dispatcher, records_of(1, 100), 1),
            "produce, one record, idempotent, acks=all": producing_idempotently(dispatcher, 77),
            "produce, a hundred records of 100 B, acks=all": producing(dispatcher, records_of(100, 100), -1),
        }
        for name, run in runs.items():
            if profiled is None:
                measure(name, run, requests)
        producing(dispatcher, records_of(1, 100), -1)(100)
        fetch = fetching(dispatcher, end_offset=parts.partition("bench").log.log_end_offset)
        if profiled is None:
            measure("fetch, one record, in a session", fetch, requests)
            parked = answering_parked_fetches(parts, dispatcher)
            measure("a parked fetch and the produce that answers it", parked, requests)
        else:
            run = fetch if profiled == "fetch" else next(iter(runs.values()))
            profiler = cProfile.Profile()
            profiler.runcall(run, requests)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(28)
        await stop_parts(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--profile", choices=["produce", "fetch"])
    options = parser.parse_args()
    asyncio.run(bench(options.requests, options.profile))


if __name__ == "__main__":
    main()
