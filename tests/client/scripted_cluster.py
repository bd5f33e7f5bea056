"""Brokers in memory: they speak the wire protocol and answer as a test's script says.

`ScriptedCluster.connect` takes the place of a socket. Each request is decoded as a broker would, recorded, and given to
the script of its API; what the script gives is the answer, None leaves the request unanswered, an exception ends the
connection. ApiVersions and Metadata have an answer unless a test scripts another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, TypeVar

from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ConnectionLost
from tailrace.client.stream import Receiver
from tailrace.protocol.api_keys import APIS, ApiKey
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.codec import decode_message
from tailrace.protocol.frame import FrameBuffer, encode_response, read_request_header
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.schema import Message
from tailrace.settings.client_config import AdminConfig
from tailrace.testing.virtual_clock import VirtualClock

T = TypeVar("T")
Script = Callable[[Any], Message | None]


def topic_id(name: str) -> bytes:
    """The id that a scripted topic has."""
    return name.encode().ljust(16, b"\x01")


class ScriptedCluster:
    """Brokers by address, with topics whose partitions they lead in turn."""

    def __init__(self, *, brokers: int = 1, topics: dict[str, int] | None = None) -> None:
        self.addresses = [Address(f"broker{number}", 9092) for number in range(brokers)]
        self.topics = {"flights": 2} if topics is None else topics
        self.scripts: dict[ApiKey, Script] = {ApiKey.METADATA: self.answer_metadata}
        self.versions: dict[ApiKey, tuple[int, int]] = {
            api.key: (api.advertised.first, api.advertised.last) for api in APIS.values() if api.is_client_facing
        }
        self.requests: list[tuple[int, int, Message]] = []
        self.streams: list[MemoryStream] = []
        self.unreachable: set[Address] = set()
        self.leaders: dict[tuple[str, int], int] = {}

    async def connect(self, address: Address, receiver: Receiver) -> MemoryStream:
        """Stand in for a socket."""
        await asyncio.sleep(0)
        if address in self.unreachable or address not in self.addresses:
            raise ConnectionLost(f"cannot connect to {address}: connection refused")
        stream = MemoryStream(self, self.addresses.index(address), receiver)
        self.streams.append(stream)
        return stream

    def requests_of(self, message_class: type[T]) -> list[T]:
        """Give the requests of one kind, in their order."""
        return [message for _, _, message in self.requests if isinstance(message, message_class)]

    def answer(self, node_id: int, version: int, request: Message) -> Message | None:
        """Record a request and ask its script."""
        self.requests.append((node_id, version, request))
        key = ApiKey(request.api_key or 0)
        script = self.scripts.get(key)
        if key is ApiKey.API_VERSIONS and script is None:
            return self.answer_versions()
        assert script is not None, f"no script for {key.name}"
        return script(request)

    def answer_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in self.versions.items()
            ]
        )

    def answer_metadata(self, request: MetadataRequest) -> MetadataResponse:
        """Say who is there, and who leads."""
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        brokers = [
            MetadataResponseBroker(node_id=number, host=address.host, port=address.port)
            for number, address in enumerate(self.addresses)
        ]
        return MetadataResponse(
            brokers=brokers, controller_id=0, cluster_id="scripted", topics=[self._topic(name) for name in names]
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=3)
        partitions = [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=self.leaders.get((name, number), number % len(self.addresses)),
                leader_epoch=1,
                replica_nodes=[0],
                isr_nodes=[0],
            )
            for number in range(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=topic_id(name), partitions=partitions)


class MemoryStream:
    """One connection to a scripted broker."""

    def __init__(self, cluster: ScriptedCluster, node_id: int, receiver: Receiver) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self._receiver = receiver
        self._frames = FrameBuffer(frame_bytes_max=1 << 24)
        self._unanswered: deque[tuple[int, int, int]] = deque()
        self.is_closed = False

    def write(self, chunks: Sequence[Buffer]) -> None:
        """Receive a request, and have it answered in the next turn of the loop."""
        self._frames.feed(b"".join(chunks))
        while (frame := self._frames.next_frame()) is not None:
            asyncio.get_running_loop().call_soon(self._serve, bytes(frame))

    async def writable(self) -> None:
        """There is always room."""

    def close(self) -> None:
        """End the connection."""
        self.lose(None)

    def abort(self) -> None:
        """End the connection."""
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """End the connection as the network does."""
        if not self.is_closed:
            self.is_closed = True
            self._receiver.connection_lost(error)

    def send(self, chunks: Sequence[Buffer]) -> None:
        """Let the client receive bytes."""
        data = memoryview(b"".join(chunks))
        while len(data) and not self.is_closed:
            room = self._receiver.receive_buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._receiver.received(count)
            data = data[count:]

    def _serve(self, frame: bytes) -> None:
        if self.is_closed:
            return
        key, version, correlation_id, _, position = read_request_header(memoryview(frame))
        api = ApiKey(key).api
        last = self._cluster.versions.get(ApiKey(key), (0, -1))[1]
        if key == ApiKey.API_VERSIONS and version > last:
            refused = self._cluster.answer_versions()
            refused.error_code = 35
            self.send(encode_response(refused, 0, correlation_id=correlation_id, header_version=0))
            return
        request = decode_message(api.request_class, version, frame, position)
        try:
            response = self._cluster.answer(self.node_id, version, request)
        except ConnectionError as error:
            self.lose(error)
            return
        self._unanswered.append((correlation_id, version, api.response_header_version(version)))
        if response is not None:
            self.answer_oldest(response)

    def answer_oldest(self, response: Message) -> None:
        """Answer the request that has waited longest."""
        correlation_id, version, header_version = self._unanswered.popleft()
        self.send(encode_response(response, version, correlation_id=correlation_id, header_version=header_version))


def make_cluster(scripted: ScriptedCluster, clock: VirtualClock, **settings: Any) -> Cluster:
    """A client's view of the scripted brokers, bootstrapped from the first."""
    config = AdminConfig({"bootstrap_servers": str(scripted.addresses[0]), **settings})
    return Cluster(config, clock=clock, random=Random(1), connect=scripted.connect)


async def drive(clock: VirtualClock, work: Awaitable[T], *, limit_ms: int = 300_000, step_ms: int = 10) -> T:
    """Turn the clock until the work is done."""
    task = asyncio.ensure_future(work)
    for _ in range(limit_ms // step_ms):
        if task.done():
            break
        await clock.advance_async(step_ms)
    assert task.done(), f"not done after {limit_ms} ms of virtual time"
    return task.result()


__all__ = ["ApiVersionsRequest", "MemoryStream", "ScriptedCluster", "drive", "make_cluster", "topic_id"]
