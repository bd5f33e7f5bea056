"""The one place where the client touches sockets: a TCP connection that hands on what it receives, encrypted or not.

Everything above it is given a `Stream` and can be given another, such as the memory stream of the tests. Writes are
buffered by the event loop; `writable` waits while the buffer is above its limit. What TLS needs to know is `tls`'s.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from tailrace.client.address import Address
from tailrace.client.errors import AuthenticationFailed, ConnectionLost
from tailrace.protocol.buffers import Buffer

WRITE_BUFFER_BYTES_MAX = 1024 * 1024


class Receiver(Protocol):
    """Who is told what a stream receives; called on the event loop."""

    def receive_buffer(self) -> memoryview:
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
        """End the connection after what was written is sent; the receiver is told."""
        ...

    def abort(self) -> None:
        """End the connection at once, whatever was written; the receiver is told."""
        ...


OpenStream: TypeAlias = Callable[[Address, Receiver], Awaitable[Stream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOpener:
    """Makes TCP connections; buffer sizes of -1 leave them to the system."""

    tls: ssl.SSLContext | None = None
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1

    async def __call__(self, address: Address, receiver: Receiver) -> Stream:
        """Connect to `address`, trying each of its IP addresses.

        ConnectionLost says why it failed, AuthenticationFailed that one side did not accept the other's certificate.
        """
        loop = asyncio.get_running_loop()
        name = address.host if self.tls is not None else None
        try:
            _, stream = await loop.create_connection(
                lambda: SocketStream(receiver, self), address.host, address.port, ssl=self.tls, server_hostname=name
            )
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(f"{address} could not prove who it is: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise AuthenticationFailed(f"TLS with {address} failed: {_tls_reason(error)}") from error
        except (OSError, EOFError) as error:
            how = "" if self.tls is None else " with TLS"
            raise ConnectionLost(f"cannot connect to {address}{how}: {_reason(error)}") from error
        return stream


open_stream = SocketOpener()
"""Makes plain connections with the system's buffers."""


class SocketStream(asyncio.BufferedProtocol):
    """A TCP connection of the event loop."""

    def __init__(self, receiver: Receiver, opener: SocketOpener = open_stream) -> None:
        self._receiver = receiver
        self._opener = opener
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
        """Close after what was written is sent: with acks=0 those may be records."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now: a peer that does not read would keep what was written, and its memory, for as long as it liked."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Turn off Nagle's algorithm: a request is written whole, and waiting for more only delays it."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._opener.send_buffer_bytes >= 0:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._opener.send_buffer_bytes)
            if self._opener.receive_buffer_bytes >= 0:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._opener.receive_buffer_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Receive where the frames are cut."""
        return self._receiver.receive_buffer()

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


def _reason(error: Exception) -> str:
    """Say it in the system's words, without the numbers around them."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _tls_reason(error: ssl.SSLError) -> str:
    """Give OpenSSL's reason, and what it mostly means where that is not its name."""
    reason = error.reason or str(error)
    return f"{reason}; does the port speak TLS?" if reason == "WRONG_VERSION_NUMBER" else reason
