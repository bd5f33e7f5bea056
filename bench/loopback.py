"""What one request costs before and after its handler: `python -m bench.loopback`.

A stub handler answers InitProducerId with a ready response. First the path alone, frames fed to a `Connection` whose
transport keeps nothing; then the same through sockets, to a process of its own: requests a second and CPU a request
(kernel included) at several depths of pipelining.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import socket
import struct
import time
from multiprocessing.connection import Connection as Pipe
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import uvloop

from tailrace.broker.broker import Broker
from tailrace.broker.connection import Connection, ConnectionSettings
from tailrace.broker.connection_limits import RequestMemory
from tailrace.broker.dispatch import Dispatcher
from tailrace.broker.metrics import BrokerMetrics, ListenerMetrics
from tailrace.broker.network import Network
from tailrace.broker.request import ConnectionInfo
from tailrace.clock import SystemClock
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.settings.broker_config import BrokerConfig

VERSION = 4
DEPTHS = (1, 16, 128)
SECONDS = 1.0


def dispatcher() -> Dispatcher:
    broker = cast("Broker", SimpleNamespace(clock=SystemClock(), metrics=BrokerMetrics()))
    stub = ModuleType("stub")
    response = InitProducerIdResponse(producer_id=7, producer_epoch=0)
    cast("Any", stub).handle = lambda broker, request: response
    return Dispatcher(broker, {ApiKey.INIT_PRODUCER_ID: stub})


def request() -> bytes:
    return b"".join(encode_request(InitProducerIdRequest(), VERSION, correlation_id=7, client_id="bench"))


class NoTransport(asyncio.Transport):
    """Takes what is written and forgets it."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        pass

    def writelines(self, list_of_data: object) -> None:
        pass


def path_us(depth: int) -> float:
    """Give the microseconds of one request without any socket."""
    settings = ConnectionSettings(
        dispatcher=dispatcher(),
        clock=SystemClock(),
        memory=RequestMemory(-1),
        metrics=ListenerMetrics(),
        request_size_max=1 << 20,
        pending_count_max=500,
    )
    connection = Connection(settings, ConnectionInfo(id="bench", listener_name="PLAINTEXT"), lambda _: None)
    connection.connection_made(NoTransport())
    frames = request() * depth
    rounds = 200_000 // depth
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(rounds):
            connection.get_buffer(-1)[: len(frames)] = frames
            connection.buffer_updated(len(frames))
        best = min(best, time.perf_counter() - started)
    return best / rounds / depth * 1e6


def serve(pipe: Pipe) -> None:
    """Run a network with the stub until the pipe says otherwise; tell its CPU seconds whenever asked."""

    async def run() -> None:
        network = Network(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"}), SystemClock(), BrokerMetrics())
        network.open()
        network.start(dispatcher())
        pipe.send(network.ports["PLAINTEXT"])
        while await asyncio.to_thread(pipe.recv):
            usage = resource.getrusage(resource.RUSAGE_SELF)
            pipe.send((usage.ru_utime, usage.ru_stime))
        network.stop_accepting()

    uvloop.run(run())


def measure(pipe: Pipe, port: int, depth: int) -> tuple[float, float, float]:
    """Give requests a second, and microseconds of user and system CPU a request."""
    frames = request() * depth
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(request())
        head = client.recv(4, socket.MSG_WAITALL)
        size = struct.unpack(">i", head)[0]
        client.recv(size, socket.MSG_WAITALL)
        expected = (size + 4) * depth
        pipe.send(True)
        user, system = pipe.recv()
        started = time.perf_counter()
        count = 0
        while time.perf_counter() - started < SECONDS:
            client.sendall(frames)
            left = expected
            while left:
                left -= len(client.recv(left))
            count += depth
        elapsed = time.perf_counter() - started
        pipe.send(True)
        user_after, system_after = pipe.recv()
    return count / elapsed, (user_after - user) / count * 1e6, (system_after - system) / count * 1e6


def main() -> None:
    for depth in DEPTHS:
        print(f"path alone, {depth:4d} frames at a time: {path_us(depth):6.2f} µs a request")
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    try:
        port = ours.recv()
        for depth in DEPTHS:
            rate, user, system = measure(ours, port, depth)
            print(
                f"loopback, {depth:4d} in flight: {rate:9,.0f} requests/s,"
                f" {user + system:6.2f} µs CPU a request ({user:.2f} user, {system:.2f} system)"
            )
    finally:
        ours.send(False)
        process.join(5)
    print(f"on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
