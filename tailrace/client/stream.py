"""The one place where the client touches sockets: a TCP connection that hands on what it receives.

Everything above it is given a `Stream` and can be given another, such as the memory stream of the tests. Writes are
buffered by the event loop; `writable` waits while the buffer is above its limit.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, cast

from tailrace.client.errors import ConnectionLost
from tailrace.client.settings import Address
from tailrace.protocol.buffers import Buffer

WRITE_BUFFER_BYTES_MAX = 1024 * 1024


class Receiver(Protocol):
    """Who is told what a stream receives; called on the event loop."""

    def writable(self) -> memoryview:
        """Give memory to receive into."""
        ...

    def received(self, count: int) -> None:
        """So many bytes have come into the memory that was given."""
        ...

    def connection_lost(self, error: Exception | None) -> None:
        """The stream has ended: by an error, or because either side closed it."""
        ...


class Stream(Protocol):
    """A connection as the rest of the client sees it."""

    def write(self, chunks: Sequence[Buffer]) -> None:
        """Send the chunks in order; they must not change until they are sent."""
        ...

    async def writable(self) -> None:
        """Wait until there is room to write."""
        ...

    def close(self) -> None:
        """End the connection; the receiver is told."""
        ...


OpenStream: TypeAlias = Callable[[Address, Receiver], Awaitable[Stream]]


async def open_stream(address: Address, receiver: Receiver) -> Stream:
    """Connect to `address`, trying each of its IP addresses; ConnectionLost says why it failed."""
    loop = asyncio.get_running_loop()
    try:
        _, stream = await loop.create_connection(lambda: SocketStream(receiver), address.host, address.port)
    except OSError as error:
        raise ConnectionLost(f"cannot connect to {address}: {_reason(error)}") from error
    return stream


class SocketStream(asyncio.BufferedProtocol):
    """A TCP connection of the event loop."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._room: asyncio.Future[None] | None = None

    def write(self, chunks: Sequence[Buffer]) -> None:
        """Send the chunks in order."""
        if self._transport is not None:
            self._transport.writelines(chunks)

    async def writable(self) -> None:
        """Wait while more than `WRITE_BUFFER_BYTES_MAX` bytes wait for the network."""
        if self._room is not None:
            await asyncio.shield(self._room)

    def close(self) -> None:
        """Close after what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Turn off Nagle's algorithm: a request is written whole, and waiting for more only delays it."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Receive where the frames are cut."""
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on what has come."""
        self._receiver.received(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand on that the connection has ended, and let those go on who wait for room."""
        self._transport = None
        self.resume_writing()
        self._receiver.connection_lost(exc)

    def pause_writing(self) -> None:
        """Make writers wait."""
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let writers go on."""
        if self._room is not None:
            self._room.set_result(None)
            self._room = None


def _reason(error: OSError) -> str:
    """Say it in the system's words, without the numbers around them."""
    return (error.strerror or str(error)).lower() if error.errno is not None and error.strerror else str(error)
