"""A client that is one blocking socket: a message goes out, its answer is waited for."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import decode_message
from tailrace.protocol.frame import encode_request, read_response_header
from tailrace.protocol.schema import Message

DEADLINE_S = 20.0


class BlockingWire:
    """See the module's docstring; a context manager that closes it. Any broker will do."""

    def __init__(self, port: int, *, client_id: str = "wire") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        self._client_id = client_id
        self._correlation_id = 0

    def ask(self, message: Message, version: int) -> Any:
        """Send a request and give its response."""
        self.send(message, version)
        return self.receive(message, version)

    def send(self, message: Message, version: int) -> None:
        """Send a request; its answer comes by `receive`, in turn."""
        self._correlation_id += 1
        chunks = encode_request(message, version, correlation_id=self._correlation_id, client_id=self._client_id)
        self._socket.sendall(b"".join(chunks))

    def receive(self, message: Message, version: int) -> Any:
        """Give the next response; `message` is the request that it answers."""
        assert message.api_key is not None
        api = ApiKey(message.api_key).api
        frame = memoryview(self._read(struct.unpack(">i", self._read(4))[0]))
        _, position = read_response_header(frame, api.response_header_version(version))
        return decode_message(api.response_class, version, frame, position)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> BlockingWire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Asker = Callable[[Message, int], Any]
