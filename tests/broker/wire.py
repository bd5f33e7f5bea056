"""A client that is only a socket, and a network whose handlers do what the test says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar, cast

from tailrace.broker.broker import Broker
from tailrace.broker.dispatch import Dispatcher
from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.network import Network
from tailrace.broker.request import NO_RESPONSE, CloseConnection, Parked, Request
from tailrace.clock import Clock, SystemClock
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import decode_message
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.frame import encode_request, read_response_header
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.schema import Message
from tailrace.settings.broker_config import BrokerConfig

M = TypeVar("M", bound=Message)

DEADLINE_S = 10.0
VERSION = 4
FETCH_VERSION = 12


class Wire:
    """One connection to a broker, frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, message: Message, version: int, *, correlation_id: int = 0, client_id: str | None = "test") -> None:
        self.send(b"".join(encode_request(message, version, correlation_id=correlation_id, client_id=client_id)))

    def order(self, what: str, *, correlation_id: int = 0) -> None:
        """Send the stub an order; see `StubHandlers`."""
        self.ask(InitProducerIdRequest(transactional_id=what), VERSION, correlation_id=correlation_id)

    async def frame(self) -> memoryview:
        async with asyncio.timeout(DEADLINE_S):
            size = struct.unpack(">i", await self.reader.readexactly(4))[0]
            return memoryview(await self.reader.readexactly(size))

    async def answer(self, cls: type[M], version: int, *, header_version: int = 1) -> tuple[int, M]:
        frame = await self.frame()
        correlation_id, position = read_response_header(frame, header_version)
        return correlation_id, decode_message(cls, version, frame, position)

    async def obeyed(self) -> tuple[int, InitProducerIdResponse]:
        """Read the stub's answer."""
        return await self.answer(InitProducerIdResponse, VERSION)

    async def is_closed(self) -> bool:
        """Wait until the broker closes; False where it sends something instead."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def connected(port: int, host: str = "127.0.0.1") -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


async def eventually(holds: Callable[[], bool]) -> None:
    """Let the loop run until something holds; fails at a deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - what it waits for is state, and nobody sets an event for it
            await asyncio.sleep(0)


async def settled(turns: int = 50) -> None:
    """Let everything happen that can happen without anybody's doing."""
    for _ in range(turns):
        await asyncio.sleep(0)


@dataclass
class StubHandlers:
    """Handlers of InitProducerId and Fetch that do as they are told.

    The transactional id is the order: `now`, `park`, `slow` (a coroutine that waits for `release`), `nothing`, `close`,
    `api error`, `bug`, `wrong` (an answer of no type), `slow park`. A fetch is answered with `fetch_bytes` of records.
    """

    orders: list[str] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    seen_by_slow: list[str] = field(default_factory=list)
    fetch_bytes: int = 0

    def modules(self) -> dict[ApiKey, ModuleType]:
        stub: Any = ModuleType("stub_init_producer_id")
        stub.handle = self.handle
        fetch: Any = ModuleType("stub_fetch")
        fetch.handle = self.fetch
        return {ApiKey.INIT_PRODUCER_ID: stub, ApiKey.FETCH: fetch}

    def handle(self, broker: Broker, request: Request[InitProducerIdRequest]) -> Any:
        order = request.body.transactional_id or ""
        self.orders.append(order)
        if order == "park":
            parked = Parked()
            self.parked.append(parked)
            return parked
        if order.startswith("slow"):
            return self.slow(order)
        if order == "nothing":
            return NO_RESPONSE
        if order == "close":
            raise CloseConnection("the order was to close")
        if order == "api error":
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if order == "bug":
            raise RuntimeError("nobody foresaw this")
        return object() if order == "wrong" else InitProducerIdResponse(producer_id=len(self.orders))

    async def slow(self, order: str) -> Any:
        await self.release.wait()
        self.seen_by_slow.append(order)
        if order == "slow bug":
            raise RuntimeError("nobody foresaw this either")
        if order == "slow park":
            parked = Parked()
            self.parked.append(parked)
            return parked
        return InitProducerIdResponse(producer_id=1000)

    def fetch(self, broker: Broker, request: Request[FetchRequest]) -> FetchResponse:
        self.orders.append("fetch")
        data = PartitionData(records=bytes(self.fetch_bytes))
        return FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=[data])])


@dataclass
class Stub:
    """A network with stub handlers."""

    network: Network
    handlers: StubHandlers
    metrics: BrokerMetrics

    @property
    def port(self) -> int:
        return self.network.ports["PLAINTEXT"]


@asynccontextmanager
async def stub_network(clock: Clock | None = None, **texts: str) -> AsyncIterator[Stub]:
    """Open a network on loopback; settings by keyword, `max_connections="1"`."""
    clock = clock or SystemClock()
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", **{key.replace("_", "."): text for key, text in texts.items()}}
    metrics = BrokerMetrics()
    network = Network(BrokerConfig(settings), clock, metrics)
    handlers = StubHandlers()
    network.open()
    try:
        broker = cast("Broker", SimpleNamespace(clock=clock, metrics=metrics))
        network.start(Dispatcher(broker, handlers.modules()))
        yield Stub(network, handlers, metrics)
    finally:
        network.stop_accepting()
        network.abort()
        await settled(5)
