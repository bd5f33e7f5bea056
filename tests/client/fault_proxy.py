"""A TCP proxy between a client and a broker that does to answers what networks and dying brokers do.

It knows frames and correlation ids, so that a fault strikes exactly one answer. `connect` takes the place of a socket
opener, so that whatever address a client was told, it comes here. `choose` is asked about each answer; after `heal`
everything passes.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from enum import Enum

from tailrace.client.address import Address
from tailrace.client.stream import Receiver, Stream, open_stream
from tailrace.protocol.api_keys import ApiKey


class Fault(Enum):
    """What happens to an answer."""

    NONE = "it passes"
    RESET_BEFORE = "the connection is reset in its place: the request was served, and nobody says so"
    RESET_WITHIN = "the connection is reset when half of it has passed"
    DROPPED = "it is left out, and those behind it pass"
    DUPLICATED = "it comes twice"
    HALF_OPEN = "nothing passes any more in either direction, and nobody closes anything"
    SLOW = "it trickles"


Choose = Callable[[ApiKey], Fault]

_TRICKLE_PIECES = 5
_TRICKLE_PAUSE_S = 0.01


class FaultProxy:
    """Forwards connections to `target_port` on 127.0.0.1."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.choose: Choose = lambda api: Fault.NONE
        self.struck: list[tuple[ApiKey, Fault]] = []
        self.connections_count = 0
        self.refuses = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FaultProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def connect(self, address: Address, receiver: Receiver) -> Stream:
        """Open a client's connection to whatever broker: this one."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return await open_stream(Address("127.0.0.1", port), receiver)

    def heal(self) -> None:
        """Let everything pass from now on; what was struck already stays so."""
        self.choose = lambda api: Fault.NONE
        self.refuses = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections_count += 1
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side has gone, which the other is told by the end of its connection; or the test is over
        finally:
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            return
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        apis: dict[int, ApiKey] = {}
        stalled = asyncio.Event()
        directions = {
            asyncio.ensure_future(_forward_requests(reader, broker_writer, apis, stalled)),
            asyncio.ensure_future(self._forward_answers(broker_reader, writer, apis, stalled)),
        }
        try:
            done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in directions:
                task.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            broker_writer.close()

    async def _forward_answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        apis: dict[int, ApiKey],
        stalled: asyncio.Event,
    ) -> None:
        while True:
            frame = await _read_frame(reader)
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            api = apis.pop(correlation_id)
            fault = self.choose(api)
            if fault is not Fault.NONE:
                self.struck.append((api, fault))
            if fault is Fault.RESET_BEFORE:
                return
            if fault is Fault.HALF_OPEN:
                stalled.set()
                await asyncio.get_running_loop().create_future()
            if fault is Fault.DROPPED:
                continue
            for piece in _pieces(frame, fault):
                writer.write(piece)
                await writer.drain()
                if fault is Fault.SLOW:
                    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=_TRICKLE_PAUSE_S)
            if fault is Fault.RESET_WITHIN:
                return


async def _forward_requests(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, apis: dict[int, ApiKey], stalled: asyncio.Event
) -> None:
    while True:
        frame = await _read_frame(reader)
        if stalled.is_set():
            continue
        api, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
        apis[correlation_id] = ApiKey(api)
        writer.write(frame)
        await writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head, "big"))


def _pieces(frame: bytes, fault: Fault) -> list[bytes]:
    """Give what passes of an answer, in its parts."""
    if fault is Fault.RESET_WITHIN:
        return [frame[: len(frame) // 2]]
    if fault is Fault.DUPLICATED:
        return [frame, frame]
    if fault is Fault.SLOW:
        size = len(frame) // _TRICKLE_PIECES + 1
        return [frame[start : start + size] for start in range(0, len(frame), size)]
    return [frame]


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a dead host does: by RST, whatever was written."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
