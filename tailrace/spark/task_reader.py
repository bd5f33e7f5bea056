"""What a task does in Spark's Python worker: it fetches its range and gives Arrow batches.

Batch and stream readers share it. The first task of a worker pays for the imports; the client with its connections and
the modules stay for the tasks after it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tailrace.settings.client_config import ConsumerConfig
from tailrace.spark.cluster_client import client_of
from tailrace.spark.offset_ranges import OffsetRange
from tailrace.spark.options import SourceOptions
from tailrace.spark.range_reader import RangeSettings, read_range


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Reads ranges; it is made by the driver and pickled to the workers. `schema` is Spark's."""

    options: SourceOptions
    schema: Any

    def read(self, offset_range: OffsetRange | None) -> Iterator[Any]:
        """Give the batches of a range; None, which Spark makes of an empty plan, has none."""
        if offset_range is None:
            return
        to_arrow_schema = import_module("pyspark.sql.pandas.types").to_arrow_schema

        from tailrace.spark.columns import RowBatches

        _freeze_modules()
        options = self.options
        client = client_of(options.kafka, ConsumerConfig)
        settings = RangeSettings(options.poll_timeout_ms, options.fails_on_data_loss)
        batches = RowBatches(to_arrow_schema(self.schema, timezone="UTC"), decodes_json=options.decodes_json)
        for piece in read_range(client, offset_range, settings):
            batch = batches.make(offset_range.topic_partition, piece, offset_range.until)
            if batch.num_rows:
                yield batch


_is_frozen = False


def _freeze_modules() -> None:
    """Take what is imported out of the garbage collector's sight, once in a process.

    Spark's worker collects all garbage after each task, which takes 27 ms with pyspark and pyarrow loaded, most of it
    looking at modules that never go away.
    """
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.collect()
        gc.freeze()
