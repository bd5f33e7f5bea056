"""One client's connection: bytes in, frames to the dispatcher, responses out in the order of the requests.

Most requests are answered while their bytes are still in the receive buffer, without a task or a future: the responses
of all frames that came together leave with one `writelines`. A parked request takes a slot in `_pending`, and so does
every later response, until the slot at the head is filled. While a coroutine handler runs nothing more is dispatched or
read, so its frame stays where it is.

A connection stops dispatching and reading when the peer does not read its answers, when too many of its requests wait
(queued.max.requests), or when the broker holds too many bytes of requests (queued.max.request.bytes).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from tailrace.broker.busy_poll import BusyPoll, Habit
from tailrace.broker.connection_limits import RequestMemory
from tailrace.broker.dispatch import Call, Dispatcher
from tailrace.broker.metrics import ListenerMetrics
from tailrace.broker.request import Answer, CloseConnection, ConnectionInfo, ImmediateResult, Parked
from tailrace.clock import Clock
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.frame import FrameBuffer

LOGGER = logging.getLogger(__name__)

WRITE_BUFFER_HIGH = 1 << 20
"""Bytes that may wait to be written before the connection stops: a fetch response or so."""
WRITE_BUFFER_LOW = 1 << 18
COPIED_SIZE_MAX = 4096
"""Up to this size a response is copied where that saves views of it."""
OUTGOING_SIZE_MAX = 1 << 16
"""Bytes that are collected before they are handed to the transport, which then may say that it has enough."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What all connections of a listener have in common."""

    dispatcher: Dispatcher
    clock: Clock
    memory: RequestMemory
    metrics: ListenerMetrics
    busy_poll: BusyPoll
    request_size_max: int
    pending_count_max: int


class PendingResponse:
    """A place in the order of responses; filled when `chunks` is there."""

    __slots__ = ("chunks", "close_reason", "connection", "size")

    def __init__(self, connection: Connection | None, size: int, chunks: list[Buffer] | None = None) -> None:
        self.connection = connection
        self.size = size
        self.chunks = chunks
        self.close_reason: str | None = None

    def fill(self, call: Call, parked: Parked) -> None:
        """Take the answer of a parked request; the connection may be gone by now."""
        connection = self.connection
        if connection is None:
            call.record()
            return
        connection.fill(self, call, parked.answer, parked.error)


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    __slots__ = (
        "_closed",
        "_frames",
        "_habit",
        "_is_dispatching",
        "_is_draining",
        "_is_held",
        "_is_memory_awaited",
        "_is_reading",
        "_is_write_paused",
        "_on_closed",
        "_outgoing",
        "_outgoing_size",
        "_pending",
        "_task",
        "_transport",
        "info",
        "last_active",
        "settings",
    )

    def __init__(
        self, settings: ConnectionSettings, info: ConnectionInfo, on_closed: Callable[[Connection], object]
    ) -> None:
        self.info = info
        self.last_active = settings.clock.monotonic()
        self.settings = settings
        self._on_closed = on_closed
        self._frames = FrameBuffer(frame_bytes_max=settings.request_size_max)
        self._transport: asyncio.Transport | None = None
        self._pending: deque[PendingResponse] = deque()
        self._outgoing: list[Buffer] = []
        self._outgoing_size = 0
        self._task: asyncio.Task[None] | None = None
        self._habit = Habit(settings.busy_poll)
        self._is_reading = True
        self._is_dispatching = False
        self._is_held = False
        self._is_write_paused = False
        self._is_memory_awaited = False
        self._is_draining = False
        self._closed = False

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for its answer, or an answer for its reader."""
        return bool(self._pending) or self._is_held or self._is_write_paused

    @property
    def write_buffer_size(self) -> int:
        """Bytes that the peer has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: the transport is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes go."""
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that came, and serve the frames that are whole."""
        self._frames.received(nbytes)
        self._serve_frames()
        if self._pending or self._frames.buffered_bytes:
            self._habit.is_left_waiting()
        else:
            self._habit.answered(self.last_active, self.settings.clock.monotonic())

    def eof_received(self) -> bool:
        """Close, as Kafka does, when the peer will send no more."""
        return False

    def pause_writing(self) -> None:
        """Stop: the peer does not read its answers."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        self._is_write_paused = False
        self.last_active = self.settings.clock.monotonic()
        self._serve_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of what waits; operations that are parked end without a reader."""
        self._closed = True
        memory = self.settings.memory
        for slot in self._pending:
            slot.connection = None
            memory.release(slot.size)
        self._pending.clear()
        self._outgoing.clear()
        self._transport = None
        self._on_closed(self)

    # What the server calls.

    def drain(self) -> None:
        """Dispatch nothing more, answer what waits, then close."""
        self._is_draining = True
        self._regulate()
        self._close_if_drained()

    def abort(self, reason: str) -> None:
        """Close at once, whatever waits."""
        if self._transport is not None:
            LOGGER.info("connection %s is closed: %s", self.info.id, reason)
            self._transport.abort()

    # Requests.

    def _serve_frames(self) -> None:
        """Dispatch whole frames for as long as the connection may, and send what they gave."""
        if self._is_dispatching:
            return
        self._is_dispatching = True
        frames = self._frames
        dispatch = self.settings.dispatcher.dispatch
        self.last_active = received_at = self.settings.clock.monotonic()
        try:
            while frames.buffered_bytes and not self._must_wait():
                frame = frames.next_frame()
                if frame is None:
                    break
                outcome = dispatch(frame, self.info, received_at)
                if isinstance(outcome, list):
                    self._respond(outcome)
                elif outcome is not None:
                    self._park(outcome)
        except MalformedFrame as error:
            self.settings.metrics.malformed += 1
            self._close_in_turn(f"malformed request: {error}")
        except CloseConnection as error:
            self._close_in_turn(str(error))
        finally:
            self._is_dispatching = False
        self._flush()
        self.settings.dispatcher.count_answered()
        self._regulate()

    def _must_wait(self) -> bool:
        """Say whether no frame may be dispatched now."""
        settings = self.settings
        return (
            self._is_held
            or self._is_write_paused
            or self._is_draining
            or self._closed
            or len(self._pending) >= settings.pending_count_max
            or settings.memory.is_full
        )

    def _park(self, call: Call) -> None:
        """Give a request that is not answered yet its place in the order."""
        slot = PendingResponse(self, call.size)
        self.settings.memory.acquire(call.size)
        self._pending.append(slot)
        result = call.result
        if isinstance(result, Parked):
            result.add_done_callback(lambda parked: slot.fill(call, parked))
        else:
            self._is_held = True
            self._task = asyncio.get_running_loop().create_task(self._wait_for(slot, call, result))

    async def _wait_for(
        self, slot: PendingResponse, call: Call, coroutine: Coroutine[Any, Any, ImmediateResult]
    ) -> None:
        """Run a coroutine handler; the connection dispatches nothing until it ends."""
        answer: ImmediateResult | None = None
        error: Exception | None = None
        try:
            answer = await coroutine
        except Exception as raised:  # noqa: BLE001 - the dispatcher tells foreseen errors from others, and logs
            error = raised
        self._is_held = False
        self._task = None
        if isinstance(answer, Parked):
            answer.add_done_callback(lambda parked: slot.fill(call, parked))
        elif slot.connection is not None:
            self.fill(slot, call, answer, error)
        self._serve_frames()

    # Responses.

    def fill(self, slot: PendingResponse, call: Call, answer: Answer | None, error: Exception | None) -> None:
        """Put a late answer into its slot and send what is next in turn."""
        try:
            slot.chunks = call.finish(answer, error)
        except CloseConnection as reason:
            slot.close_reason = str(reason)
        was_full = len(self._pending) >= self.settings.pending_count_max
        self._send_in_turn()
        if not self._is_dispatching:
            self._flush()
        call.record()
        if not self._is_dispatching and (was_full or not self._is_reading):
            self._serve_frames()

    def _respond(self, chunks: list[Buffer]) -> None:
        if self._pending:
            self._pending.append(PendingResponse(self, 0, chunks))
            return
        self._outgoing += chunks
        self._outgoing_size += len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
        if self._outgoing_size > OUTGOING_SIZE_MAX:
            self._flush()

    def _send_in_turn(self) -> None:
        """Move the filled slots at the head of the queue to what is written next."""
        pending = self._pending
        memory = self.settings.memory
        while pending:
            slot = pending[0]
            if slot.close_reason is not None:
                self._flush()
                self._close(slot.close_reason)
                return
            if slot.chunks is None:
                return
            pending.popleft()
            memory.release(slot.size)
            self._outgoing += slot.chunks
            self._outgoing_size += sum(map(len, slot.chunks))

    def _flush(self) -> None:
        """Hand what is ready to the transport; it writes at the end of the loop's turn."""
        outgoing = self._outgoing
        if outgoing and self._transport is not None:
            self._outgoing = []
            self._outgoing_size = 0
            if len(outgoing) == 1:
                chunk = outgoing[0]
                # uvloop takes bytes as they are; of another buffer it makes two views, which costs more than a copy.
                self._transport.write(bytes(chunk) if len(chunk) <= COPIED_SIZE_MAX else chunk)
            else:
                self._transport.writelines(outgoing)
        if self._is_draining:
            self._close_if_drained()

    # Reading and closing.

    def _regulate(self) -> None:
        """Read exactly while requests may be dispatched: what is not read fills the peer's window, and it waits."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        may_read = not self._must_wait()
        if may_read != self._is_reading:
            self._is_reading = may_read
            if may_read:
                transport.resume_reading()
            else:
                transport.pause_reading()
        if not may_read and self.settings.memory.is_full and not self._is_memory_awaited:
            self._is_memory_awaited = True
            self.settings.memory.wait(self._on_memory)

    def _on_memory(self) -> None:
        """Go on when other requests were answered; in a turn of its own, since their answers are being sent."""
        self._is_memory_awaited = False
        if not self._closed:
            asyncio.get_running_loop().call_soon(self._serve_frames)

    def _close_in_turn(self, reason: str) -> None:
        """Close once the requests before the offending one have their answers."""
        slot = PendingResponse(self, 0)
        slot.close_reason = reason
        self._pending.append(slot)
        self._is_draining = True
        self._send_in_turn()

    def _close_if_drained(self) -> None:
        if not self._pending and not self._is_held and self._transport is not None:
            self._transport.close()

    def _close(self, reason: str) -> None:
        """Close after what was handed to the transport is written, with one line in the log."""
        LOGGER.info("connection %s from %s is closed: %s", self.info.id, self.info.peer_host, reason)
        if self._transport is not None:
            self._transport.close()
