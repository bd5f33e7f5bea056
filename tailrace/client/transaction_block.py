"""`async with producer.transaction():` a transaction that ends with the block."""

from __future__ import annotations

import logging
from types import TracebackType

from tailrace.client.errors import AbortableError, ClientError
from tailrace.client.transactions import Transactions

_log = logging.getLogger("tailrace.client")


class TransactionBlock:
    """Begins a transaction, commits it at the block's end, and aborts it where the block or the commit fails.

    What the block raised is raised on. A commit that has to be undone raises its AbortableError after the abort: the
    block can be run again. Nothing is done at the end if the block has ended the transaction itself.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __aenter__(self) -> None:
        self._transactions.begin()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._transactions.state.is_open:
            return
        if error is not None:
            try:
                await self._transactions.abort()
            except ClientError as failure:
                _log.warning("a transaction that failed was not aborted: %s", failure)
            return
        try:
            await self._transactions.commit()
        except AbortableError:
            await self._transactions.abort()
            raise
