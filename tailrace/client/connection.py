"""One connection to one broker: which answer belongs to which request, in which version, and until when.

Lives here: the negotiation of versions (ApiVersions), correlation, the limit of requests in flight, timeouts, and the
pauses that a broker asks for (KIP-219). The bytes are `protocol`'s, the socket is `stream`'s, who the client is
`authentication`'s. Answers come in the order of the requests, so a request that times out ends the connection: nothing
behind it could be answered. Whoever waits then gets ConnectionLost, and whoever made the connection makes another.
Brokers use it for their links to each other, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from tailrace import __version__
from tailrace.client.address import Address
from tailrace.client.deadline import within
from tailrace.client.errors import ClientError, ConnectionLost, RequestTimedOut, UnsupportedVersion
from tailrace.client.sasl_session import HeldRequest, SaslSession
from tailrace.client.stream import OpenStream, Stream, open_stream
from tailrace.clock import Clock, TimerHandle
from tailrace.protocol.api_keys import APIS, ApiKey
from tailrace.protocol.codec import decode_message
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.frame import FrameBuffer, encode_request, read_response_header
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.fetch import FetchResponse
from tailrace.protocol.schema import Message

M = TypeVar("M", bound=Message)
Authenticate: TypeAlias = Callable[["Connection"], Awaitable[float]]
"""Says who the client is, and gives after how many milliseconds that has to be said again; 0 for never."""

SOFTWARE_NAME: Final = "tailrace"
REQUESTS_IN_FLIGHT_MAX: Final = 64
"""How many requests wait for answers on one connection before `request` waits; the sender has a limit of its own."""
_TIMER_MARGIN_S: Final = 0.0005
"""A timer may fire this much early."""
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A length prefix beyond this is no answer of a broker: fetch.max.bytes is a fifth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """What a connection goes by."""

    client_id: str = SOFTWARE_NAME
    request_timeout_ms: int = 30_000
    setup_timeout_ms: int = 10_000
    in_flight_max: int = REQUESTS_IN_FLIGHT_MAX
    response_bytes_max: int = RESPONSE_BYTES_MAX


@dataclass(slots=True)
class _Pending:
    """A request that waits for its answer."""

    correlation_id: int
    response_class: type[Message]
    version: int
    header_version: int
    answer: asyncio.Future[Any]
    timeout_ms: int
    expires_at: float


class Connection:
    """A connection that is ready for requests; make one with `Connection.open`."""

    def __init__(self, address: Address, *, settings: ConnectionSettings, clock: Clock) -> None:
        self.address = address
        self.finalized_features: dict[str, int] = {}
        """Features that the cluster has agreed on, with their levels: `transaction.version`, `group.version`."""
        self.requests_count = 0
        """How many requests were sent so far; who finds it unchanged knows that the connection was idle."""
        self._settings = settings
        self._clock = clock
        self._stream: Stream | None = None
        self._frames = FrameBuffer(frame_bytes_max=settings.response_bytes_max)
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._slots: deque[asyncio.Future[None]] = deque()
        self._throttled_until = 0.0
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._end: ClientError | None = None
        self._session: SaslSession | None = None

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        settings: ConnectionSettings,
        clock: Clock,
        connect: OpenStream = open_stream,
        authenticate: Authenticate | None = None,
    ) -> Connection:
        """Connect, agree on versions, authenticate.

        ConnectionLost or RequestTimedOut where that fails, AuthenticationFailed where one side is not accepted.
        """
        connection = cls(address, settings=settings, clock=clock)
        timeout_ms = settings.setup_timeout_ms
        timed_out = ConnectionLost(f"cannot connect to {address}: no connection after {timeout_ms} ms")
        connection._stream = await within(clock, timeout_ms, connect(address, connection), timed_out)
        try:
            await connection._negotiate()
            if authenticate is not None:
                connection._session = connection._make_session(authenticate)
                await connection._session.begin()
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._end is None

    @property
    def in_flight_count(self) -> int:
        """How many requests wait for their answers."""
        return len(self._pending) + (0 if self._session is None else self._session.held_count)

    @property
    def throttled_ms(self) -> float:
        """How long the broker wants to be left alone; 0 where it does not."""
        return max(0.0, (self._throttled_until - self._clock.monotonic()) * 1000) if self._throttled_until else 0.0

    def version_for(self, request_class: type[Message], version_max: int | None = None) -> int:
        """Give the latest version that both sides have, at most `version_max`, or raise UnsupportedVersion."""
        key = request_class.api_key
        broker = self._versions.get(-1 if key is None else key)
        if broker is None:
            raise UnsupportedVersion(f"{self.address} does not serve {request_class.__name__}")
        ours = request_class.versions
        last = min(ours.last - request_class.unstable, broker[1])
        if version_max is not None:
            last = min(last, version_max)
        if last < max(ours.first, broker[0]):
            raise UnsupportedVersion(
                f"{self.address} serves versions {broker[0]}-{broker[1]} of {request_class.__name__}, not {ours}"
            )
        return last

    async def request(
        self,
        message: Message,
        response_class: type[M],
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
    ) -> M:
        """Send a request and give its answer.

        The timeout (request.timeout.ms, where none is given) begins when the request is written.
        """
        while self._throttled_until and (pause_ms := self.throttled_ms) > 0:
            await self._clock.sleep(pause_ms)
        while len(self._pending) >= self._settings.in_flight_max and self._end is None:
            slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._slots.append(slot)
            await slot
        answer = self.submit(message, response_class, timeout_ms=timeout_ms, version_max=version_max)
        await self._open_stream().writable()
        result: M = await answer
        return result

    def submit(
        self,
        message: Message,
        response_class: type[M],
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
    ) -> asyncio.Future[M]:
        """Send a request now, whatever is in flight, and give the future of its answer."""
        version = self.version_for(type(message), version_max)
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        answer: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        if self._session is not None and self._session.is_holding():
            self._session.hold(HeldRequest(message, version, response_class, answer, timeout_ms))
            return answer
        self.requests_count += 1
        self._submit(message, version, response_class, answer, timeout_ms)
        return answer

    def submit_without_answer(self, message: Message, *, version_max: int | None = None) -> None:
        """Send a request that brokers do not answer: a Produce with acks=0."""
        version = self.version_for(type(message), version_max)
        if self._session is not None and self._session.is_holding():
            self._session.hold(HeldRequest(message, version, Message, None, 0))
            return
        self.requests_count += 1
        self._write(message, version)

    async def authenticate_request(self, message: Message, response_class: type[M]) -> M:
        """Send a request that says who the client is, which everything else waits for, and give its answer."""
        answer: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        timeout_ms = self._settings.request_timeout_ms
        self._submit(message, self.version_for(type(message)), response_class, answer, timeout_ms)
        return await answer

    def _submit(
        self,
        message: Message,
        version: int,
        response_class: type[M],
        answer: asyncio.Future[Any],
        timeout_ms: int,
    ) -> None:
        """Write a request, and remember who waits for its answer."""
        correlation_id = self._write(message, version)
        header_version = APIS[ApiKey(message.api_key or 0)].response_header_version(version)
        expires_at = self._clock.monotonic() + timeout_ms / 1000
        self._pending.append(
            _Pending(correlation_id, response_class, version, header_version, answer, timeout_ms, expires_at)
        )
        if self._timer is None or expires_at < self._timer_at:
            self._set_timer(expires_at, timeout_ms)

    async def writable(self) -> None:
        """Wait while more is written than the network takes; ConnectionLost where it is gone."""
        await self._open_stream().writable()

    def close(self) -> None:
        """Close the connection; who waits for an answer gets ConnectionLost."""
        self._finish(ConnectionLost(f"the connection to {self.address} was closed"), is_orderly=True)

    def received(self, count: int) -> None:
        """Take what the stream received, and give the answers in it to those who wait."""
        self._frames.received(count)
        try:
            while self._end is None and (frame := self._frames.next_frame()) is not None:
                self._answer(frame)
        except MalformedFrame as error:
            self._finish(ConnectionLost(f"{self.address} sent what is no answer: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        """Take notice that the stream has ended."""
        reason = f": {error}" if error else " by the broker"
        self._finish(ConnectionLost(f"the connection to {self.address} was ended{reason}"))

    def receive_buffer(self) -> memoryview:
        """Give the stream memory to receive into."""
        return self._frames.writable()

    async def _negotiate(self) -> None:
        """Ask for the versions of all APIs.

        A broker that does not have our version of the question answers in version 0, with the error and its versions.
        """
        first, last = ApiVersionsRequest.versions.first, ApiVersionsRequest.versions.last
        self._versions = {int(ApiKey.API_VERSIONS): (first, last)}
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        response = await self.submit(request, ApiVersionsResponse)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = [entry.max_version for entry in response.api_keys if entry.api_key == ApiVersionsRequest.api_key]
            version = min(last - 1, max(served, default=0))
            response = await self.submit(request, ApiVersionsResponse, version_max=version)
        if response.error_code:
            raise UnsupportedVersion(f"{self.address} answers ApiVersions with error {response.error_code}")
        self._versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.finalized_features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def _make_session(self, authenticate: Authenticate) -> SaslSession:
        def release(held: HeldRequest) -> None:
            self.requests_count += 1
            if held.answer is None:
                self._write(held.message, held.version)
            elif not held.answer.done():
                self._submit(held.message, held.version, held.response_class, held.answer, held.timeout_ms)

        return SaslSession(self._clock, lambda: authenticate(self), release, self._finish)

    def _write(self, message: Message, version: int) -> int:
        stream = self._open_stream()
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        client_id = self._settings.client_id
        stream.write(encode_request(message, version, correlation_id=correlation_id, client_id=client_id))
        return correlation_id

    def _open_stream(self) -> Stream:
        if self._end is not None:
            raise ConnectionLost(str(self._end))
        assert self._stream is not None, "a connection is used after it was opened"
        return self._stream

    def _answer(self, frame: memoryview) -> None:
        """Give one answer to who waits for it, which is the one who has waited longest."""
        if not self._pending:
            raise MalformedFrame("an answer to no request")
        pending = self._pending[0]
        correlation_id, position = read_response_header(frame, pending.header_version)
        if correlation_id != pending.correlation_id:
            raise MalformedFrame(f"correlation id {correlation_id}, where {pending.correlation_id} was expected")
        response = _decode(pending, frame, position)
        self._pending.popleft()
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self._throttled_until = self._clock.monotonic() + throttle_time_ms / 1000
        if not pending.answer.done():
            pending.answer.set_result(response)
        if self._slots:
            self._free_slot()

    def _set_timer(self, at: float, delay_ms: float) -> None:
        """Look at `at` whether a request is answered in its time. One timer for all: most requests are, and soon."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_later(delay_ms, self._look_at_time)

    def _look_at_time(self) -> None:
        """End the connection if a request is not answered in its time."""
        self._timer = None
        now = self._clock.monotonic() + _TIMER_MARGIN_S
        for pending in self._pending:
            if pending.expires_at <= now:
                self._expire(pending)
                return
        if self._pending:
            earliest = min(pending.expires_at for pending in self._pending)
            self._set_timer(earliest, (earliest - now + _TIMER_MARGIN_S) * 1000)

    def _expire(self, pending: _Pending) -> None:
        if not pending.answer.done():
            what, timeout_ms = pending.response_class.__name__, pending.timeout_ms
            pending.answer.set_exception(RequestTimedOut(f"{self.address} did not answer {what} in {timeout_ms} ms"))
        self._finish(ConnectionLost(f"{self.address} did not answer another request in time"))

    def _finish(self, error: ClientError, *, is_orderly: bool = False) -> None:
        """End the connection once, and tell everybody."""
        if self._end is not None:
            return
        self._end = error
        if self._timer is not None:
            self._timer.cancel()
        if self._session is not None:
            self._session.close(error)
        if self._stream is not None:
            if is_orderly:
                self._stream.close()
            else:
                self._stream.abort()
        while self._pending:
            pending = self._pending.popleft()
            if not pending.answer.done():
                pending.answer.set_exception(ConnectionLost(str(error)))
        while self._slots:
            self._free_slot()

    def _free_slot(self) -> None:
        while self._slots:
            slot = self._slots.popleft()
            if not slot.done():
                slot.set_result(None)
                return


def _decode(pending: _Pending, frame: memoryview, position: int) -> Message:
    """Decode an answer. Records are copied: who waits runs only after the frame's memory is filled anew."""
    version = pending.version
    if pending.response_class is ApiVersionsResponse and bytes(frame[position : position + 2]) == _UNSUPPORTED_VERSION:
        version = 0
    elif pending.response_class.api_key in _APIS_WITH_RECORDS:
        return decode_message(pending.response_class, version, bytes(frame[position:]))
    response = decode_message(pending.response_class, version, frame, position)
    if isinstance(response, FetchResponse):
        # Each partition's records are copied by themselves: that is the one copy that a consumer makes of them.
        for topic in response.responses:
            for data in topic.partitions:
                if data.records is not None:
                    data.records = bytes(data.records)
    return response


_APIS_WITH_RECORDS = frozenset({ApiKey.SHARE_FETCH, ApiKey.FETCH_SNAPSHOT})
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
