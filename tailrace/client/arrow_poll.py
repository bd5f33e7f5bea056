"""Makes one RecordBatch of the answers that a consumer fetched. Needs pyarrow: `pip install tailrace[arrow]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.client.arrow_reader import SCHEMA, arrow_batch, pa
from tailrace.client.completed_fetch import CompletedFetch
from tailrace.client.errors import ClientError
from tailrace.client.fetcher import Fetcher
from tailrace.protocol.errors import ApiError, MalformedFrame


def take_arrow(fetcher: Fetcher, completed: Sequence[CompletedFetch]) -> Any:
    """Give the records of some answers; an error of one is raised where nothing comes before it."""
    batches: list[Any] = []
    for index, fetch in enumerate(completed):
        try:
            batch = arrow_batch(fetch.state.topic_partition, fetch.walk(), fetch.position)
        except (ApiError, ClientError, MalformedFrame):
            fetcher.give_back(completed[index:])
            if not batches:
                raise
            break
        if batch.num_rows:
            batches.append(batch)
    if not batches:
        return empty_batch()
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def empty_batch() -> Any:
    """Give a batch without records."""
    return pa.RecordBatch.from_pylist([], SCHEMA)
