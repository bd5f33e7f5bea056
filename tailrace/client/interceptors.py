"""What stands between a caller and a producer: it sees each record before it is sent, and what became of it.

An interceptor may change records, count them, or put a trace into their headers (KIP-42). What it raises is logged and
stops nothing; the next interceptor goes on with what the one before it left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.client.delivery import RecordMetadata
from tailrace.client.errors import ClientError
from tailrace.protocol.records.record import RecordHeader

_log = logging.getLogger("tailrace.client")


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record as it is given to a producer, before serialization."""

    topic: str
    value: Any
    key: Any = None
    headers: Sequence[RecordHeader] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Derive from this and override what is of interest."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Give the record that is sent in place of this one."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        """Take notice of what became of a record: where it is, or why it is nowhere."""

    def close(self) -> None:
        """The producer is closed."""


class Interceptors:
    """All interceptors of one producer, in their order."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Let each change the record that the one before it gave."""
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:  # noqa: BLE001 - a user's class may raise anything
                _log.exception("interceptor %r failed on a record for %s", interceptor, record.topic)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        """Tell each what became of a record."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:  # noqa: BLE001 - a user's class may raise anything
                _log.exception("interceptor %r failed on an acknowledgement", interceptor)

    def close(self) -> None:
        """Tell each that the producer is closed."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - a user's class may raise anything
                _log.exception("interceptor %r failed to close", interceptor)
