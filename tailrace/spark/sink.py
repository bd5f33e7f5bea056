"""Writes what Spark gives to topics: `df.write.format("tailrace")` and `writeStream`. At least once.

A task's records are acknowledged before the task ends, so a batch that Spark counts as done is written; a task that is
tried again writes anew what it had written before. Arrow batches go to the producer as they are, without a Python
object a record. The worker's connections are there for its later tasks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from importlib import import_module
from typing import Any, Final

from tailrace.client.bulk import BulkDelivery
from tailrace.client.cluster import Cluster
from tailrace.client.producer import Producer
from tailrace.settings.client_config import ProducerConfig
from tailrace.spark.cluster_client import client_of
from tailrace.spark.sink_options import SinkOptions

compute: Any = import_module("pyarrow.compute")
datasource: Any = import_module("pyspark.sql.datasource")

_DELIVERIES_MAX: Final = 64
"""So many bulks may wait for their acknowledgement; the producer's buffer.memory is the limit in bytes."""


class Written(datasource.WriterCommitMessage):  # pyright: ignore[reportUntypedBaseClass]
    """What a task tells the driver: how many records it wrote."""

    def __init__(self, records_count: int) -> None:
        self.records_count = records_count


class BatchWriter(datasource.DataSourceArrowWriter):  # pyright: ignore[reportUntypedBaseClass]
    """Spark's writer of a batch query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Any:
        """Write a task's rows."""
        return write_rows(self._options, iterator)


class StreamWriter(datasource.DataSourceStreamArrowWriter):  # pyright: ignore[reportUntypedBaseClass]
    """Spark's writer of a streaming query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Any:
        """Write a task's rows of one micro-batch."""
        return write_rows(self._options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Take notice that all tasks of a micro-batch are done: what they wrote is written."""

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Take notice that a micro-batch failed; Spark will try it again."""


def write_rows(options: SinkOptions, batches: Iterator[Any]) -> Written:
    """Write batch after batch, the next one being made meanwhile, and wait until all are acknowledged."""
    client = client_of(options.kafka, ProducerConfig)
    task = client.run(_begin(client.cluster, options))
    sending: Future[None] | None = None
    count = 0
    try:
        for batch in batches:
            if sending is not None:
                sending.result()
            count += batch.num_rows
            sending = asyncio.run_coroutine_threadsafe(task.send(batch), client.loop)
        if sending is not None:
            sending.result()
        client.run(task.finish())
    finally:
        client.run(task.close())
    return Written(count)


async def _begin(cluster: Cluster, options: SinkOptions) -> _Task:
    return _Task(Producer(ProducerConfig(options.kafka), cluster=cluster), options)


class _Task:
    """One task's producer, on the client's event loop."""

    def __init__(self, producer: Producer[bytes, bytes], options: SinkOptions) -> None:
        self._producer = producer
        self._options = options
        self._deliveries: deque[BulkDelivery] = deque()

    async def send(self, batch: Any) -> None:
        """Give a batch to the producer, and wait where too much is under way."""
        for topic, rows in rows_by_target(batch.select(self._options.columns), self._options.topic):
            self._deliveries.append(await self._producer.send_arrow(topic, rows))
        while self._deliveries and (len(self._deliveries) > _DELIVERIES_MAX or self._deliveries[0].done()):
            await self._deliveries.popleft()

    async def finish(self) -> None:
        """Wait until everything is acknowledged, or raise why something is not."""
        await self._producer.flush()
        while self._deliveries:
            await self._deliveries.popleft()

    async def close(self) -> None:
        """End the producer; what was not acknowledged by now belongs to a task that failed."""
        await self._producer.close(flush=False)


def rows_by_target(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """Divide a batch by its column `topic`, unless `topic` is that of all rows.

    Rows whose partition is null leave without that column, so that the producer chooses.
    """
    if topic is not None:
        yield from ((topic, rows) for rows in _by_presence_of_partition(batch))
        return
    names = batch.column("topic")
    if names.null_count:
        raise ValueError("a row has a null topic. Use the topic option for setting a default topic.")
    for name in compute.unique(names).to_pylist():
        rows = batch.filter(compute.equal(names, name)).drop_columns("topic")
        yield from ((name, part) for part in _by_presence_of_partition(rows))


def _by_presence_of_partition(batch: Any) -> Iterator[Any]:
    if "partition" not in batch.schema.names or not batch.column("partition").null_count:
        yield batch
        return
    is_given = compute.is_valid(batch.column("partition"))
    given, other = batch.filter(is_given), batch.filter(compute.invert(is_given)).drop_columns("partition")
    yield from (rows for rows in (given, other) if rows.num_rows)
