"""The id that an idempotent producer without transactions has from its cluster: asked for when it is needed.

Any broker gives one. It is asked for until it comes; records that wait for it longer than their delivery timeout are
given up by the sender. A cluster that refuses it for good makes the producer useless.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, FatalError, is_retriable, raise_for_code
from tailrace.client.producer_batch import ProducerId
from tailrace.client.sequences import Sequences
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FOREVER_MS = 2**31 - 1

_log = logging.getLogger("tailrace.client")


class ProducerIdentity:
    """Asks for the id, and tells `sequences`; `ready` is called when it is there, `failed` when it never will be."""

    def __init__(
        self,
        cluster: Cluster,
        sequences: Sequences,
        ready: Callable[[], None],
        failed: Callable[[FatalError], None],
    ) -> None:
        self._cluster = cluster
        self._sequences = sequences
        self._ready = ready
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Ask for an id, unless that is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask())

    async def close(self) -> None:
        """Give up asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        try:
            await self._cluster.retrying("asking for a producer id", self._attempt, timeout_ms=_FOREVER_MS)
        except (ApiError, ClientError) as error:
            if not is_retriable(error):
                fatal = FatalError(f"the cluster gives no producer id: {error}")
                fatal.__cause__ = error
                self._failed(fatal)
        else:
            self._ready()

    async def _attempt(self) -> None:
        connection = await self._cluster.any_connection()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_FOREVER_MS)
        response = await connection.request(request, InitProducerIdResponse)
        raise_for_code(response.error_code, "asking for a producer id")
        _log.debug(
            "%s: producer id %d, epoch %d", self._cluster.client_id, response.producer_id, response.producer_epoch
        )
        self._sequences.set_producer(ProducerId(response.producer_id, response.producer_epoch))
