"""A producer: takes records, fills batches, and says where each record went.

    async with Producer(bootstrap_servers="localhost:9092", compression_type="lz4") as producer:
        delivery = await producer.send("flights", b"value", key=b"key")
        metadata = await delivery

`send` returns once the record is in a batch, and waits while the buffer is full; the delivery it gives is done when the
brokers have answered. Records of one partition stay in order. Idempotent by default: a retry never writes a record
twice. How batches travel is `sender`'s business.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from tailrace.client.accumulator import Accumulator, TopicQueues
from tailrace.client.appender import RecordAppender
from tailrace.client.buffer_memory import BufferMemory
from tailrace.client.bulk import BulkDelivery, send_one_by_one
from tailrace.client.bulk_appender import BulkAppender
from tailrace.client.cluster import Cluster
from tailrace.client.consumer_record import OffsetAndMetadata
from tailrace.client.deadline import within
from tailrace.client.delivery import Delivery, RecordMetadata
from tailrace.client.errors import (
    ClientClosed,
    ClientError,
    FatalError,
    InvalidState,
    OperationTimedOut,
)
from tailrace.client.group_metadata import ConsumerGroupMetadata, OffsetToCommit
from tailrace.client.interceptors import Interceptors, ProducerInterceptor, ProducerRecord
from tailrace.client.metadata import PartitionMetadata
from tailrace.client.partitioner import KeyHashes, Partitioner
from tailrace.client.producer_identity import ProducerIdentity
from tailrace.client.record_bytes import RecordBytes
from tailrace.client.sender import Sender
from tailrace.client.sequences import Sequences
from tailrace.client.transaction_block import TransactionBlock
from tailrace.client.transaction_state import State
from tailrace.client.transactions import Transactions
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client.producer import ProducerOptions
from tailrace.settings.client_config import ProducerConfig

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

__all__ = ["Delivery", "Producer", "ProducerConfig", "RecordMetadata"]

K = TypeVar("K")
V = TypeVar("V")
Keys = TypeVar("Keys")
Values = TypeVar("Values")

_log = logging.getLogger("tailrace.client")
_numbers = itertools.count(1)


class Producer(Generic[K, V]):
    """Writes records to a cluster: the one at `bootstrap_servers`, or one that is connected to already.

    Options have Kafka's names with `_` for `.`, and Kafka's defaults; times are milliseconds, sizes bytes. Without
    serializers keys and values are bytes. A producer belongs to one event loop. `metrics` is a registry of
    prometheus-client, if it is to count (`producer_metrics`).
    """

    @overload
    def __init__(
        self: Producer[bytes, bytes],
        config: ProducerConfig | None = None,
        *,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        cluster: Cluster | None = None,
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
        cluster: Cluster | None = None,
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
        cluster: Cluster | None = None,
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
        cluster: Cluster | None = None,
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
        cluster: Cluster | None = None,
        metrics: CollectorRegistry | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.config = config = _merge(config, options)
        self._owned: Cluster | None = None
        if cluster is None:
            cluster = self._owned = Cluster(config, name=_default_name(config))
        self._cluster = cluster
        self._bytes = RecordBytes(key_serializer, value_serializer)
        self._interceptors = Interceptors(interceptors) if interceptors else None
        self._time_ms = cluster.clock.time_ms
        self._accumulator = _make_accumulator(config, cluster)
        self._identity: ProducerIdentity | None = None
        self._transactions: Transactions | None = None
        self._sender = self._make_sender()
        cluster.listeners.append(self._sender.wake)
        self._hashes = KeyHashes()
        self._appender = RecordAppender(cluster, self._accumulator, self._sender, config, self._hashes, partitioner)
        self._bulk_appender = BulkAppender(
            cluster, self._accumulator, self._sender, config, self._hashes, partitioner, self._appender
        )
        is_plain = key_serializer is None and value_serializer is None and not interceptors
        self._has_short_way = is_plain and partitioner is None and not config.partitioner_ignore_keys
        self._topics: dict[str, TopicQueues] = {}
        """Where `send` looks first. Empty where records need more than a batch: to be converted, or to be refused."""
        self._end: ClientError | None = None
        """Why no records will ever be taken again."""
        self._is_closed = False
        self._appender.transactions = self._transactions
        self._forget_metrics = self._count_in(metrics) if metrics is not None else None
        self._look_at_state()

    async def __aenter__(self) -> Producer[K, V]:
        return self

    async def __aexit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        await self.close(flush=error_type is None)

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[RecordHeader] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Put a record into a batch, and give the delivery, which is done when the record is written or given up.

        Waits for the topic's metadata and for room in the buffer, together at most max.block.ms: then OperationTimedOut
        (BufferExhausted). RecordTooLarge and other errors of the record are raised here, those of its way by the
        delivery. `on_delivery` is called with the delivery when it is done.
        """
        timestamp = self._time_ms() if timestamp_ms is None else timestamp_ms
        delivery: Delivery | None = None
        # Nearly every record finds an open batch here, and one in a batch's worth begins the next one.
        queues = self._topics.get(topic)
        if queues is not None:
            if partition is not None:
                queue = queues.partitions.get(partition)
            elif key is None:
                queue = queues.sticky
            else:
                number = self._hashes.partition_of(key, queues.partitions_count)  # type: ignore[arg-type]
                queue = queues.partitions.get(number)
            if queue is not None:
                if (
                    queue.try_append is not None
                    and (
                        index := queue.try_append(timestamp, key, value, headers)  # type: ignore[arg-type]
                    )
                    >= 0
                ):
                    delivery = Delivery(queue.open, index, timestamp)  # type: ignore[arg-type]
                else:
                    is_keyless = key is None and partition is None
                    delivery = self._appender.append_now(queues, queue, is_keyless, timestamp, key, value, headers)  # type: ignore[arg-type]
                    if delivery is not None and self._appender.is_turn_due():
                        await asyncio.sleep(0)
        if delivery is None:
            delivery = await self._send_slowly(ProducerRecord(topic, value, key, headers, partition, timestamp))
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    async def send_batch(
        self,
        topic: str,
        values: Sequence[V | None],
        *,
        keys: Sequence[K | None] | None = None,
        headers: Sequence[Sequence[RecordHeader]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | Sequence[int] | None = None,
    ) -> BulkDelivery:
        """Put many records into batches of their own, as large as max.request.size allows, which do not linger.

        `keys` and `headers` are as long as `values`; `timestamp_ms` may be. Waits for room in the buffer, at most
        max.block.ms a batch. What is wrong with a record is raised before any is taken: RecordTooLarge,
        SerializationFailed, TypeError, ValueError. BulkInterrupted has the delivery of those that were taken before the
        rest could not be.
        """
        rows = self._bytes.rows(topic, values, keys, headers, timestamp_ms, now_ms=self._time_ms())
        if self._interceptors is None:
            return await self._bulk_appender.append(topic, [rows], partition)

        async def send(place: int) -> Delivery:
            key, own = keys[place] if keys else None, headers[place] if headers else ()
            timestamp = rows.timestamps[place]
            return await self.send(
                topic, values[place], key=key, headers=own, partition=partition, timestamp_ms=timestamp
            )

        return await send_one_by_one(send, len(values))

    async def send_arrow(self, topic: str, data: Any, *, partition: int | None = None) -> BulkDelivery:
        """Put the rows of a pyarrow RecordBatch or Table into batches, as `send_batch` does, without objects for them.

        Columns: `value`, and if there are `key` (binary or string), `headers` (a map, or a list of structs),
        `timestamp` (a timestamp, or milliseconds; null is now) and `partition`. Others are left aside. Serializers and
        interceptors see nothing of it. TypeError and ValueError say which column is wrong; ImportError that pyarrow and
        numpy are not there: `pip install tailrace[arrow]`.
        """
        from tailrace.client.arrow_columns import read_columns

        return await self._bulk_appender.append(topic, read_columns(data, self._time_ms()), partition)

    async def init_transactions(self) -> None:
        """Make ready for transactions: once, before the first.

        Any other producer with this transactional.id is fenced, and what it left open is aborted. Takes at most
        max.block.ms (OperationTimedOut; call it again to wait on). AuthorizationFailed where the id may not be used,
        FatalError where the producer is of no use.
        """
        await self._transactional().init()

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from here on is committed or aborted together; InvalidState in another."""
        self._transactional().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetToCommit],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit a consumer's offsets, of the records to read next, together with the transaction.

        `group` is the group's id, or what the consumer knows of its place in it: then a consumer that has lost its
        partitions is refused. AbortableError where the transaction has to be aborted, or after max.block.ms.
        """
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        wanted = {key: OffsetAndMetadata(given) if isinstance(given, int) else given for key, given in offsets.items()}
        await self._transactional().commit_offsets(wanted, metadata)

    async def commit_transaction(self) -> None:
        """Wait until all records are acknowledged, and commit the transaction.

        AbortableError where it cannot be committed and is to be aborted, FatalError (ProducerFenced) where the producer
        is of no more use, OperationTimedOut after max.block.ms: then nobody knows yet; call it again to wait on.
        """
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction: records that were not sent fail with TransactionAborted, the others nobody will read.

        FatalError (ProducerFenced) where the producer is of no more use, OperationTimedOut after max.block.ms.
        """
        await self._transactional().abort()

    def transaction(self) -> TransactionBlock:
        """Give a block for `async with`: a transaction that is committed at its end, or aborted by what is raised."""
        return TransactionBlock(self._transactional())

    async def flush(self) -> None:
        """Send everything now, without lingering, and wait until it is written or given up."""
        self._sender.wake()
        await self._accumulator.flushed()

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """Give a topic's partitions, waiting for metadata at most max.block.ms."""
        if self._end is not None:
            raise self._end
        await self._appender.topic(topic, self.config.max_block_ms)
        return list(self._cluster.known.topics[topic].partitions.values())

    async def close(self, *, flush: bool = True, timeout_ms: float | None = None) -> None:
        """Flush, unless told not to, and stop; records that were not acknowledged fail with ClientClosed.

        A transaction that is open is aborted. Flushing ends with the last record's delivery timeout, or after
        `timeout_ms`: then OperationTimedOut is raised.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._refuse(ClientClosed("the producer is closed"))
        try:
            if flush or self._transactions is not None:
                await self._flush_in(timeout_ms)
        finally:
            await self._stop()

    async def _flush_in(self, timeout_ms: float | None) -> None:
        work = self.flush() if self._transactions is None else self._transactions.close()
        if timeout_ms is None:
            await work
        else:
            timed_out = OperationTimedOut(
                f"records were not acknowledged {timeout_ms:g} ms after the producer was closed"
            )
            await within(self._cluster.clock, timeout_ms, work, timed_out)

    async def _stop(self) -> None:
        self._cluster.listeners.remove(self._sender.wake)
        if self._forget_metrics is not None:
            self._forget_metrics()
        self._accumulator.memory.close()
        self._sender.close()
        if self._identity is not None:
            await self._identity.close()
        if self._transactions is not None:
            await self._transactions.stop()
        if self._interceptors is not None:
            self._interceptors.close()
        if self._owned is not None:
            await self._owned.close()

    async def _send_slowly(self, record: ProducerRecord) -> Delivery:
        """Send a record that has to be converted, or needs a new batch."""
        interceptors = self._interceptors
        if interceptors is None:
            return await self._convert_and_append(record)
        record = interceptors.on_send(record)
        try:
            delivery = await self._convert_and_append(record)
        except ClientError as error:
            interceptors.on_acknowledgement(None, error)
            raise
        delivery.add_done_callback(self._tell_interceptors)
        return delivery

    async def _convert_and_append(self, record: ProducerRecord) -> Delivery:
        key, value = self._bytes.key(record.key, record.topic), self._bytes.value(record.value, record.topic)
        timestamp = self._time_ms() if record.timestamp_ms is None else record.timestamp_ms
        return await self._appender.append(record.topic, value, key, record.headers, record.partition, timestamp)

    def _tell_interceptors(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if self._interceptors is not None:
            self._interceptors.on_acknowledgement(delivery.result() if error is None else None, error)

    def _make_sender(self) -> Sender:
        cluster, config, accumulator = self._cluster, self.config, self._accumulator
        is_transactional = config.transactional_id is not None
        sequences = Sequences(is_transactional=is_transactional) if config.is_idempotent else None
        if sequences is not None and is_transactional:
            self._transactions = Transactions(
                cluster,
                config,
                sequences,
                accumulator,
                wake=lambda: self._sender.wake(),
                drop_unsent=lambda error: self._sender.abort_unsent(error),
                changed=self._look_at_state,
            )
        elif sequences is not None:
            self._identity = ProducerIdentity(cluster, sequences, lambda: self._sender.wake(), self._fail)
        return Sender(
            cluster,
            accumulator,
            config,
            sequences=sequences,
            gate=self._transactions,
            needs_id=self._ask_for_id,
            failed=self._fail,
        )

    def _count_in(self, registry: CollectorRegistry) -> Callable[[], None]:
        """Count, and have the registry ask for it; give what ends that."""
        from tailrace.client.metric_collector import collector_in
        from tailrace.client.producer_metrics import ProducerMetrics

        counts = ProducerMetrics(self._cluster.client_id, self._accumulator.memory)
        self._sender.count_in(counts)
        if self._transactions is not None:
            counts.transactions = self._transactions.ended_counts
        collector = collector_in(registry, "producer", ProducerMetrics.tell)
        collector.add(counts)
        return lambda: collector.remove(counts)

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise InvalidState("this producer has no transactional.id, and so no transactions")
        if self._end is not None:
            raise self._end
        return self._transactions

    def _look_at_state(self) -> None:
        """Take records, or refuse them, as the state of the transaction has it."""
        transactions = self._transactions
        if transactions is not None and self._end is None:
            state = transactions.state
            if isinstance(state.error, FatalError):
                self._refuse(state.error)
                self._sender.abort_all(state.error)
                return
            refusal: ClientError | None = None
            if state.now is not State.IN_TRANSACTION:
                refusal = state.error or InvalidState(f"the producer {state.now.value}; records need a transaction")
            self._appender.refusal = refusal
        takes_records = self._appender.refusal is None
        self._topics = self._accumulator.topics if takes_records and self._has_short_way else {}

    def _ask_for_id(self) -> None:
        if self._identity is not None:
            self._identity.ask()

    def _fail(self, error: FatalError) -> None:
        """Take no more records, and give up those that were taken."""
        _log.error("%s: %s", self._cluster.client_id, error)
        self._refuse(error)
        self._sender.abort_unsent(error)

    def _refuse(self, error: ClientError) -> None:
        if self._end is None:
            self._end = self._appender.refusal = error
        self._topics = {}


def _make_accumulator(config: ProducerConfig, cluster: Cluster) -> Accumulator:
    return Accumulator(
        BufferMemory(config.buffer_memory, cluster.clock),
        batch_bytes=min(config.batch_size, config.max_request_size),
        linger_s=config.linger_ms / 1000,
        compression=Compression.parse(config.compression_type),
        level=config.compression_level,
        random=cluster.random,
        is_adaptive=config.partitioner_adaptive_partitioning_enable,
    )


def _merge(config: ProducerConfig | None, options: ProducerOptions) -> ProducerConfig:
    if config is not None and not options:
        return config
    return ProducerConfig({**(config.given if config is not None else {}), **options})


def _default_name(config: ProducerConfig) -> str:
    return f"tailrace-producer-{config.transactional_id or next(_numbers)}"
