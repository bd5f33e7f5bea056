"""A consumer without an event loop.

    with Consumer(bootstrap_servers="localhost:9092", group_id="board") as consumer:
        consumer.subscribe(["flights"])
        for record in consumer:
            ...

One thread at a time uses it; only `wakeup` may be called by others. Rebalance listeners, interceptors, deserializers
and the callbacks of commits run on the clients' thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, Unpack, overload

from tailrace.client.assignors import Assignor
from tailrace.client.blocking.face import BlockingClient, blocking, on_loop
from tailrace.client.consumer import Consumer as AsyncConsumer
from tailrace.client.consumer_record import ConsumerRecord
from tailrace.client.rebalance_listener import ConsumerInterceptor
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client.consumer import ConsumerOptions
from tailrace.settings.client_config import ConsumerConfig

K = TypeVar("K")
V = TypeVar("V")

_AnyConsumer = AsyncConsumer[Any, Any]


class Consumer(BlockingClient[AsyncConsumer[Any, Any]], Generic[K, V]):
    """As `tailrace.client.Consumer`, whose methods these wait for."""

    @overload
    def __init__(
        self: Consumer[bytes, bytes],
        config: ConsumerConfig | None = None,
        *,
        assignors: Sequence[Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        assignors: Sequence[Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        key_deserializer: Callable[[bytes], Any] | None = None,
        value_deserializer: Callable[[bytes], Any] | None = None,
        assignors: Sequence[Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            lambda: AsyncConsumer(
                config,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                assignors=assignors,
                interceptors=interceptors,
                **options,
            )
        )

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Give record after record, for ever. Only those that were given count as consumed."""
        while True:
            records = self._run(self._inner.iterated)
            while records:
                yield records.popleft()

    def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """Give records as soon as there are any, at most max.poll.records, or none when the time is over."""
        return self._run(lambda: self._inner.poll(timeout_ms, max_records))

    def wakeup(self) -> None:
        """Have the thread that polls, or the next one that does, get WokenUp. Any thread may call this."""
        self._loop().loop.call_soon_threadsafe(self._inner.wakeup)

    def close(self, *, leave_group: bool = True) -> None:
        """Commit where the consumer does that by itself, give up all partitions, leave the group, and stop."""
        if self._thread is not None:
            try:
                self._run(lambda: self._inner.close(leave_group=leave_group))
            finally:
                self._let_go()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What is read now."""
        return self._call(lambda: self._inner.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return self._call(lambda: self._inner.subscription)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """What is not fetched at the moment."""
        return self._call(lambda: self._inner.paused)

    subscribe = on_loop(_AnyConsumer.subscribe)
    assign = on_loop(_AnyConsumer.assign)
    unsubscribe = blocking(_AnyConsumer.unsubscribe)
    poll_arrow = blocking(_AnyConsumer.poll_arrow)
    pause = on_loop(_AnyConsumer.pause)
    resume = on_loop(_AnyConsumer.resume)
    seek = on_loop(_AnyConsumer.seek)
    seek_to_beginning = on_loop(_AnyConsumer.seek_to_beginning)
    seek_to_end = on_loop(_AnyConsumer.seek_to_end)
    seek_to_time = on_loop(_AnyConsumer.seek_to_time)
    position = blocking(_AnyConsumer.position)
    lag = on_loop(_AnyConsumer.lag)
    lead = on_loop(_AnyConsumer.lead)
    high_watermark = on_loop(_AnyConsumer.high_watermark)
    committed = blocking(_AnyConsumer.committed)
    commit = blocking(_AnyConsumer.commit)
    commit_async = on_loop(_AnyConsumer.commit_async)
    offsets_for_times = blocking(_AnyConsumer.offsets_for_times)
    beginning_offsets = blocking(_AnyConsumer.beginning_offsets)
    end_offsets = blocking(_AnyConsumer.end_offsets)
    partitions_for = blocking(_AnyConsumer.partitions_for)
    group_metadata = on_loop(_AnyConsumer.group_metadata)
