"""What a consumer is told when its partitions change, and what may look at all that it reads and commits.

Both are called by the task that polls, inside of `poll` or `close`, so they may use the consumer: commit before
partitions go, seek after they came.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from tailrace.client.consumer_record import ConsumerRecord, OffsetAndMetadata
from tailrace.protocol.topic_partition import TopicPartition

_log = logging.getLogger("tailrace.client")


class RebalanceListener:
    """Derive from this and override what is of interest; the methods may be coroutines."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Take notice of partitions that came; positions can be set now."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Take notice of partitions that go; offsets can still be committed."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Take notice of partitions that others may have already; as if they were revoked unless overridden."""
        return self.on_partitions_revoked(partitions)


async def tell(method: Callable[[Collection[TopicPartition]], object], partitions: Collection[TopicPartition]) -> None:
    """Call a listener's method, and await what it gives where that is to be awaited; what it raises is poll's error."""
    result = method(partitions)
    if inspect.isawaitable(result):
        await result


class ConsumerInterceptor:
    """Derive from this and override what is of interest (KIP-42)."""

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Give the records that poll returns in place of these."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take notice of offsets that were committed."""

    def close(self) -> None:
        """The consumer is closed."""


class ConsumerInterceptors:
    """All interceptors of one consumer, in their order; what they raise is logged and stops nothing."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Let each change the records that the one before it gave."""
        for interceptor in self._interceptors:
            try:
                records = interceptor.on_consume(records)
            except Exception:  # noqa: BLE001 - a user's class may raise anything
                _log.exception("interceptor %r failed on %d records", interceptor, len(records))
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell each what was committed."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:  # noqa: BLE001 - a user's class may raise anything
                _log.exception("interceptor %r failed on a commit", interceptor)

    def close(self) -> None:
        """Tell each that the consumer is closed."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - a user's class may raise anything
                _log.exception("interceptor %r failed to close", interceptor)
