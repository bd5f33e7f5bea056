"""A proxy that holds one request back, as a network may, until long after its sender gave it up.

The sender finds its connection reset and asks again on another one; the request that was held goes to the broker when
the test says so, on the connection on which it came.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from tailrace.protocol.api_keys import ApiKey
from tests.waiting import DEADLINE_S

_LENGTH_BYTES = 4
_API_KEY_BYTES = 2


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read a request or a response, with its length."""
    length = await reader.readexactly(_LENGTH_BYTES)
    return length + await reader.readexactly(int.from_bytes(length))


class HoldingProxy:
    """Listens on `port`; the broker, on `broker_port`, has to tell clients that address."""

    def __init__(self) -> None:
        self.port = 0
        self.broker_port = 0
        self._wanted: ApiKey | None = None
        self._held: asyncio.Future[tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]]
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server

    async def __aenter__(self) -> HoldingProxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def hold_next(self, api_key: ApiKey) -> None:
        """Hold the next request of an API back, and reset its sender's connection."""
        self._wanted = api_key
        self._held = asyncio.get_running_loop().create_future()

    async def release(self) -> bytes:
        """Let the request go that is held, waiting until there is one; give the broker's answer behind its length."""
        request, reader, writer = await asyncio.wait_for(self._held, DEADLINE_S)
        writer.write(request)
        return (await asyncio.wait_for(read_frame(reader), DEADLINE_S))[_LENGTH_BYTES:]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
        except OSError:  # the broker is stopped before the last client is
            writer.transport.abort()
            return
        self._writers += (writer, broker_writer)
        answers = asyncio.ensure_future(self._pass_answers(broker_reader, writer))
        try:
            while True:
                request = await read_frame(reader)
                key = int.from_bytes(request[_LENGTH_BYTES : _LENGTH_BYTES + _API_KEY_BYTES])
                if key == self._wanted:
                    self._wanted = None
                    answers.cancel()
                    writer.transport.abort()
                    self._held.set_result((request, broker_reader, broker_writer))
                    return
                broker_writer.write(request)
        except (asyncio.IncompleteReadError, ConnectionError):
            broker_writer.close()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await read_frame(reader))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
