"""`spark.readStream.format("tailrace")`: where each micro-batch ends, and what it reads.

Spark keeps one reader for the life of a query, in a process of its own, and asks it for offsets; workers read. Limits
that Spark cannot say in one word (a least and a most number of offsets, a delay) are kept here, and give way where
Spark asks for all there is, as Trigger.Once does. With Trigger.AvailableNow the end is settled at the start.

A query that begins at the latest offsets has an empty first batch: it writes down where the query begins. Spark asks
again for that after a failure in the first batch, and records that came meanwhile would be left out otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from tailrace.client.admin import Admin
from tailrace.client.admin.group_offsets import GroupOffset
from tailrace.client.errors import ClientError
from tailrace.protocol.errors import ApiError
from tailrace.settings.client_config import ConsumerConfig
from tailrace.spark.cluster_client import ClusterClient, client_of
from tailrace.spark.offset_json import OffsetDocument, Offsets, offset_document, offsets_in
from tailrace.spark.offset_limits import Latest
from tailrace.spark.offset_ranges import plan_tasks
from tailrace.spark.offset_reader import OffsetReader
from tailrace.spark.options import SourceOptions
from tailrace.spark.task_reader import TaskReader
from tailrace.spark.trigger_limits import BatchDelay, limit_offsets

datasource: Any = import_module("pyspark.sql.datasource")
streaming: Any = import_module("pyspark.sql.streaming.datasource")

_log = logging.getLogger("tailrace.spark")
_PARTITIONS_AGE_MAX_MS: Final = 1_000
"""An idle query asks for offsets some fifty times a second; for new partitions it need not."""


class StreamReader(  # pyright: ignore[reportUntypedBaseClass]
    datasource.DataSourceStreamReader, streaming.SupportsTriggerAvailableNow
):
    """Spark's reader of a streaming query."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        self._options = options
        self._tasks = TaskReader(options, schema)
        self._initial: Offsets | None = None
        self._is_anchored = not isinstance(options.starting, Latest)
        self._target: Offsets | None = None
        """Where a query with Trigger.AvailableNow ends."""
        self._latest: Offsets | None = None
        self._reader: OffsetReader | None = None
        self._in_group: Offsets | None = None
        """What the group of commitOffsetsToGroup was told last."""
        least = options.min_offsets_per_trigger
        self._delay = None if least is None else BatchDelay(least, options.max_trigger_delay_ms)

    def initialOffset(self) -> OffsetDocument:  # noqa: N802 - Spark's name
        """Say where the query begins."""
        if self._initial is None:
            client, reader = self._connected()
            self._initial = client.run(_starting(reader))
        return offset_document(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Settle where the query ends."""
        client, reader = self._connected()
        self._target = client.run(_latest(reader))
        if isinstance(self._options.starting, Latest):
            self._initial = self._target

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Say what a batch reads, as far as Spark has words for it."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return streaming.ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return streaming.ReadMinRows(options.min_offsets_per_trigger)
        return streaming.ReadAllAvailable()

    def latestOffset(self, start: OffsetDocument, limit: Any) -> OffsetDocument:  # noqa: N802 - Spark's name
        """Say where the next batch ends; at `start` where there is to be none."""
        begin = offsets_in(start)
        if not self._is_anchored:
            self._is_anchored = True
            if begin == self._initial:
                return start
        client, reader = self._connected()
        self._commit_to_group(client, begin)
        latest = client.run(_latest(reader)) if self._target is None else self._target
        self._latest = latest
        if isinstance(limit, streaming.ReadAllAvailable):
            return offset_document(latest)
        if self._delay is not None and self._target is None:
            now_ms = client.cluster.clock.time_ms()
            if not self._delay.is_due(now_ms, begin, latest):
                return start
        most = self._options.max_offsets_per_trigger
        if most is not None:
            begin = client.run(reader.with_new_partitions(begin, latest))
            latest = limit_offsets(most, begin, latest)
        return offset_document(latest)

    def reportLatestOffset(self) -> OffsetDocument | None:  # noqa: N802 - Spark's name
        """Give the cluster's latest offsets for the query's progress."""
        return None if self._latest is None else offset_document(self._latest)

    def partitions(self, start: OffsetDocument, end: OffsetDocument) -> list[Any]:
        """Divide what is between two offsets into tasks."""
        options = self._options
        first, last = offsets_in(start), offsets_in(end)
        if first == self._initial and isinstance(options.starting, Latest):
            # Asked again after a failure, the beginning is later than the empty first batch that was written down.
            first = {key: min(offset, last.get(key, offset)) for key, offset in first.items()}
        client, reader = self._connected()
        ranges = client.run(reader.ranges_between(first, last))
        tasks = plan_tasks(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        return [datasource.InputPartition(task) for task in tasks]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the Arrow batches of a task."""
        return self._tasks.read(partition.value)

    def commit(self, end: OffsetDocument) -> None:
        """Take notice that a batch is done; what matters is in Spark's checkpoint."""

    def stop(self) -> None:
        """End; connections close when they have been idle."""

    def _commit_to_group(self, client: ClusterClient, start: Offsets) -> None:
        """Show the group that lag tools look at how far the query is: whatever is before `start` is done.

        Spark's own `commit` comes only once there is a batch after it. A failure is no reason to stop the query.
        """
        group = self._options.commit_group
        if group is None or not start or start == self._in_group:
            return
        self._in_group = start
        offsets = {key: GroupOffset(offset) for key, offset in start.items()}
        try:
            failed = client.run(Admin(client.cluster).alter_group_offsets(group, offsets))
        except (ApiError, ClientError) as error:
            _log.warning("offsets were not committed to group %s: %s", group, error)
            return
        for key, wrong in failed.items():
            if wrong is not None:
                _log.warning("the offset of %s was not committed to group %s: %s", key, group, wrong)

    def _connected(self) -> tuple[ClusterClient, OffsetReader]:
        """Give what asks the cluster, made where it is used first: a stream reader is pickled."""
        client = client_of(self._options.kafka, ConsumerConfig)
        if self._reader is None:
            self._reader = OffsetReader(client.cluster, self._options)
        return client, self._reader

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}


async def _starting(reader: OffsetReader) -> Offsets:
    return await reader.starting(await reader.partitions())


async def _latest(reader: OffsetReader) -> Offsets:
    return await reader.latest(await reader.partitions(age_max_ms=_PARTITIONS_AGE_MAX_MS))
