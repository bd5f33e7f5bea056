"""`spark.read.format("tailrace")`: what a batch query reads is settled when it is planned."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tailrace.settings.client_config import ConsumerConfig
from tailrace.spark.cluster_client import client_of
from tailrace.spark.offset_ranges import plan_tasks
from tailrace.spark.offset_reader import OffsetReader
from tailrace.spark.options import SourceOptions
from tailrace.spark.task_reader import TaskReader

datasource: Any = import_module("pyspark.sql.datasource")


class BatchReader(datasource.DataSourceReader):  # pyright: ignore[reportUntypedBaseClass]
    """Spark's reader of a batch query."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        self._options = options
        self._tasks = TaskReader(options, schema)

    def partitions(self) -> list[Any]:
        """Ask the cluster where the query begins and ends, and divide that into tasks."""
        options = self._options
        client = client_of(options.kafka, ConsumerConfig)
        ranges = client.run(OffsetReader(client.cluster, options).batch_ranges())
        tasks = plan_tasks(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        return [datasource.InputPartition(task) for task in tasks]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the Arrow batches of a task."""
        return self._tasks.read(partition.value)
