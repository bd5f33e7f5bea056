"""A producer without an event loop.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("flights", b"value", key=b"key")
        metadata = delivery.result()

`send` hands a record over and returns at once: going to the loop's thread and back for each would cost more than the
record. A thousand records at most are on their way there; beyond that, and while the buffer is full, `send` waits. What
is wrong with a record is told by its delivery. Any number of threads may send.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, Unpack, overload

from tailrace.client.blocking.delivery import BlockingDelivery
from tailrace.client.blocking.face import BlockingClient, blocking
from tailrace.client.bulk import BulkDelivery, WrittenRange
from tailrace.client.errors import BufferExhausted, ClientClosed
from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.client.interceptors import ProducerInterceptor
from tailrace.client.partitioner import Partitioner
from tailrace.client.producer import Producer as AsyncProducer
from tailrace.clock import SystemClock
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client.producer import ProducerOptions
from tailrace.settings.client_config import ProducerConfig

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

K = TypeVar("K")
V = TypeVar("V")
Keys = TypeVar("Keys")
Values = TypeVar("Values")

_AnyProducer = AsyncProducer[Any, Any]

HANDED_OVER_MAX: Final = 1_000
"""How many records may be on their way to the loop's thread."""


_Sent: TypeAlias = tuple[BlockingDelivery, str, Any, Any, Sequence[RecordHeader], int | None, int]
"""A record on its way: who waits for it, topic, value, key, headers, partition, timestamp."""


class Producer(BlockingClient[AsyncProducer[Any, Any]], Generic[K, V]):
    """As `tailrace.client.Producer`, whose methods these wait for."""

    @overload
    def __init__(
        self: Producer[bytes, bytes],
        config: ProducerConfig | None = None,
        *,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        metrics: CollectorRegistry | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[bytes, Values],
        config: ProducerConfig | None = None,
        *,
        value_serializer: Callable[[Values], bytes | None],
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        metrics: CollectorRegistry | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[Keys, bytes],
        config: ProducerConfig | None = None,
        *,
        key_serializer: Callable[[Keys], bytes | None],
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        metrics: CollectorRegistry | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        config: ProducerConfig | None = None,
        *,
        key_serializer: Callable[[K], bytes | None],
        value_serializer: Callable[[V], bytes | None],
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        metrics: CollectorRegistry | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    def __init__(
        self,
        config: ProducerConfig | None = None,
        *,
        key_serializer: Callable[..., bytes | None] | None = None,
        value_serializer: Callable[..., bytes | None] | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        metrics: CollectorRegistry | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        make: Callable[..., AsyncProducer[Any, Any]] = partial(
            AsyncProducer,
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
            metrics=metrics,
            **options,
        )
        super().__init__(make)
        self._time_ms = SystemClock().time_ms
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._sent: deque[_Sent] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._is_pumping = False
        self._is_closed = False

    def __enter__(self) -> Producer[K, V]:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self.close(flush=error_type is None)

    def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[RecordHeader] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BlockingDelivery:
        """Hand a record over, and give the future of where it is written.

        BufferExhausted where the loop's thread has taken none for max.block.ms, ClientClosed after `close`.
        """
        thread = self._thread
        if thread is None:
            raise ClientClosed("the producer is closed")
        delivery = BlockingDelivery(thread)
        timestamp = self._time_ms() if timestamp_ms is None else timestamp_ms
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the producer is closed")
            if len(self._sent) >= HANDED_OVER_MAX:
                self._wait_for_room()
            self._sent.append((delivery, topic, value, key, headers, partition, timestamp))
            if not self._is_pumping:
                self._is_pumping = True
                thread.loop.call_soon_threadsafe(self._start_pump)
        return delivery

    def send_batch(
        self,
        topic: str,
        values: Sequence[V | None],
        *,
        keys: Sequence[K | None] | None = None,
        headers: Sequence[Sequence[RecordHeader]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | Sequence[int] | None = None,
    ) -> Future[list[WrittenRange]]:
        """Put many records into batches of their own; see `tailrace.client.Producer.send_batch`."""

        async def work() -> BulkDelivery:
            await self._drain()
            return await self._inner.send_batch(
                topic, values, keys=keys, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )

        return self._follow(self._run(work))

    def send_arrow(self, topic: str, data: Any, *, partition: int | None = None) -> Future[list[WrittenRange]]:
        """Put the rows of a pyarrow RecordBatch or Table into batches; see `tailrace.client.Producer.send_arrow`."""

        async def work() -> BulkDelivery:
            await self._drain()
            return await self._inner.send_arrow(topic, data, partition=partition)

        return self._follow(self._run(work))

    def flush(self) -> None:
        """Send everything now, without lingering, and wait until it is written or given up."""
        self._after_records(self._inner.flush)

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from here on is committed or aborted together."""
        self._after_records(self._inner.begin_transaction)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets, of the records to read next, together with the transaction."""
        self._after_records(lambda: self._inner.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Wait until all records are acknowledged, and commit the transaction."""
        self._after_records(self._inner.commit_transaction)

    def abort_transaction(self) -> None:
        """Abort the transaction."""
        self._after_records(self._inner.abort_transaction)

    def transaction(self) -> BlockingTransaction:
        """Give a block for `with`: a transaction that is committed at its end, or aborted by what is raised."""
        return BlockingTransaction(self._inner, self._after_records)

    init_transactions = blocking(_AnyProducer.init_transactions)
    partitions_for = blocking(_AnyProducer.partitions_for)

    def close(self, *, flush: bool = True, timeout_ms: float | None = None) -> None:
        """Flush, unless told not to, and stop; see `tailrace.client.Producer.close`."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            if flush:
                self._after_records(lambda: self._inner.close(timeout_ms=timeout_ms))
            else:
                self._run(lambda: self._inner.close(flush=False, timeout_ms=timeout_ms))
                self._run(self._drain)
        finally:
            self._let_go()

    def _after_records(self, work: Callable[[], Any]) -> None:
        """Do something once every record that was handed over has its place."""

        async def ordered() -> None:
            await self._drain()
            await work()

        self._run(ordered)

    def _wait_for_room(self) -> None:
        timeout_ms = self._inner.config.max_block_ms
        if not self._room.wait_for(lambda: len(self._sent) < HANDED_OVER_MAX, timeout_ms / 1000):
            raise BufferExhausted(f"no record could be handed over in {timeout_ms} ms")

    def _start_pump(self) -> None:
        self._pump = asyncio.get_running_loop().create_task(self._pump_records())

    async def _pump_records(self) -> None:
        """Give records to the asyncio producer in their order, until there are none."""
        while True:
            with self._lock:
                sent, self._sent = self._sent, deque()
                if not sent:
                    self._is_pumping = False
                    return
                self._room.notify_all()
            try:
                while sent:
                    await self._place(sent.popleft())
            except asyncio.CancelledError:
                self._give_up(sent)
                raise

    async def _place(self, sent: _Sent) -> None:
        delivery, topic, value, key, headers, partition, timestamp_ms = sent
        try:
            placed = await self._inner.send(
                topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        except asyncio.CancelledError:
            delivery.fail(ClientClosed("the producer was closed"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, who sent the record is to know
            delivery.fail(error)
        else:
            delivery.place(placed)

    def _give_up(self, sent: deque[_Sent]) -> None:
        """Tell those whose records have no place that they never will."""
        with self._lock:
            sent += self._sent
            self._sent.clear()
            self._is_pumping = False
            self._room.notify_all()
        for delivery, *_ in sent:
            delivery.fail(ClientClosed("the producer was closed"))

    async def _drain(self) -> None:
        """Wait until every record that was handed over has its place."""
        while self._is_pumping:
            if self._pump is None or self._pump.done():
                await asyncio.sleep(0)  # it is about to start
            else:
                await asyncio.wait([self._pump])

    def _follow(self, delivery: BulkDelivery) -> Future[list[WrittenRange]]:
        async def wait() -> list[WrittenRange]:
            return await delivery

        return asyncio.run_coroutine_threadsafe(wait(), self._loop().loop)


class BlockingTransaction:
    """See `Producer.transaction`."""

    def __init__(self, producer: AsyncProducer[Any, Any], after_records: Callable[[Callable[[], Any]], None]) -> None:
        self._block = producer.transaction()
        self._after_records = after_records

    def __enter__(self) -> None:
        self._after_records(self._block.__aenter__)

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._after_records(lambda: self._block.__aexit__(error_type, error, traceback))
