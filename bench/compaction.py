"""What compaction does to the event loop, and how fast it is: `python -m bench.compaction`.

One process runs an event loop that appends to a log for each request that comes by a socket, as a broker does; another
sends requests, one at a time. Meanwhile a second log of keyed records is compacted: not at all, on a thread beside the
event loop, or in a process of its own. Printed are the round trips the client saw, how late timers of the event loop
came, and the bytes a second the cleaner went through (those it read for its map included).
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import socket
import tempfile
import threading
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import cast

import uvloop

from tailrace.clock import SystemClock
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.log_config import LogConfig
from tailrace.storage.log import Log
from tailrace.storage.log_cleaner import LogCleaner
from tailrace.storage.log_manager import LogManager
from tailrace.storage.offset_map import OffsetMap

MODES = ("none", "thread", "process")
VALUE = random.Random(1).randbytes(100)
RECORDS_A_BATCH = 100


def fill(log: Log, megabytes: int, keys: int) -> None:
    """Write keyed records, each key several times."""
    chance = random.Random(7)
    while log.size_bytes < megabytes << 20:
        now = log.context.clock.time_ms()
        records = [Record(slot, now, b"key-%012d" % chance.randrange(keys), VALUE) for slot in range(RECORDS_A_BATCH)]
        log.append_as_leader(write_batch(records), leader_epoch=0)
    log.roll()
    log.update_high_watermark(log.log_end_offset)


class Appender(asyncio.Protocol):
    """Appends one record for each request and answers."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._log.append_as_leader(write_batch([Record(0, 1, b"k", VALUE)]), leader_epoch=0)
        self._transport.write(b"done")


async def ticks(lateness: list[float]) -> None:
    """Ask to be woken every millisecond, and note by how much that was late."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        lateness.append((time.perf_counter() - before - 0.001) * 1000)


async def serve(pipe: Pipe, folder: Path, mode: str, megabytes: int, keys: int) -> None:
    config = BrokerConfig({"log.cleaner.backoff.ms": "100000"})
    manager = LogManager([folder], config, SystemClock())
    manager.cleaner = LogCleaner(manager, uses_process=mode == "process")
    compacted = LogConfig({"cleanup.policy": "compact", "segment.bytes": str(16 << 20)})
    table = manager.get_or_create(TopicPartition("table", 0), random_uuid(), compacted)
    fill(table, megabytes, keys)
    busy = manager.get_or_create(TopicPartition("busy", 0), random_uuid(), LogConfig({}))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Appender(busy), "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    lateness: list[float] = []
    ticking = loop.create_task(ticks(lateness))
    started = time.perf_counter()
    speed = 0.0
    if mode == "none":
        await asyncio.sleep(5)
    else:
        assert await manager.cleaner.clean_filthiest()
        stats = manager.cleaner.last_stats[0]
        speed = stats.bytes_read / (time.perf_counter() - started) / 1e6
    ticking.cancel()
    pipe.send((lateness, speed))
    await manager.stop()


def run_server(pipe: Pipe, folder: Path, mode: str, megabytes: int, keys: int) -> None:
    uvloop.run(serve(pipe, folder, mode, megabytes, keys))


def request_until(port: int, is_over: threading.Event) -> list[float]:
    """Send one request after another; give each round trip in milliseconds."""
    found: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not is_over.is_set():
            started = time.perf_counter()
            client.sendall(b"append")
            client.recv(4)
            found.append((time.perf_counter() - started) * 1000)
            time.sleep(0.0005)
    return found


def measure(mode: str, megabytes: int, keys: int) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (theirs, Path(folder), mode, megabytes, keys)
        process = multiprocessing.get_context("spawn").Process(target=run_server, args=arguments)
        process.start()
        port = ours.recv()
        is_over = threading.Event()
        trips: list[float] = []
        client = threading.Thread(target=lambda: trips.extend(request_until(port, is_over)))
        client.start()
        lateness, speed = ours.recv()
        is_over.set()
        client.join()
        process.join()
    print(
        f"cleaning: {mode:8} round trip p50 {quantile(trips, 0.5):6.3f} p99 {quantile(trips, 0.99):6.3f} "
        f"max {max(trips):7.3f} ms   timer late p50 {quantile(lateness, 0.5):6.3f} p99 {quantile(lateness, 0.99):6.3f} "
        f"max {max(lateness):7.3f} ms   {speed:6.1f} MB/s"
    )


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def measure_map(keys: int) -> None:
    """Compare the packed table with a dict of digests."""
    names = [b"key-%012d" % number for number in range(keys)]
    offsets = OffsetMap(1 << 40, entries_max=keys)
    started = time.perf_counter()
    for number, name in enumerate(names):
        offsets.put(name, number)
    packed = time.perf_counter() - started
    print(f"map of {keys:,} keys: {packed / keys * 1e6:.2f} µs a put, {offsets.slots * 24 / keys:.0f} bytes an entry")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--keys", type=int, default=100_000)
    options = parser.parse_args()
    print(f"{options.megabytes} MB of records of 100 bytes, {options.keys:,} keys, {os.cpu_count()} cores")
    measure_map(options.keys)
    for mode in MODES:
        measure(mode, options.megabytes, options.keys)


if __name__ == "__main__":
    main()
