"""Streaming queries that tests run until everything was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def values(frame: Any) -> list[str]:
    return sorted(row["value"].decode() for row in frame.select("value").collect())


class Stream:
    """A streaming query with a checkpoint, which writes what it reads to files, each record once."""

    def __init__(self, spark: Any, folder: Path, name: str = "tailrace") -> None:
        self.spark, self.folder, self.name = spark, folder, name
        self.checkpoint, self.output = str(folder / "checkpoint"), str(folder / "output")

    def run(self, options: dict[str, str], **trigger: Any) -> list[dict[str, Any]]:
        """Run until all that is there was read; give the progress of each batch."""
        source = self.spark.readStream.format(self.name).options(**options).load()
        query = source.writeStream.format("parquet").option("checkpointLocation", self.checkpoint)
        query = query.option("path", self.output).trigger(**(trigger or {"availableNow": True})).start()
        query.awaitTermination()
        assert query.exception() is None
        return [json.loads(progress.json) for progress in query.recentProgress]

    def values(self) -> list[str]:
        return values(self.spark.read.parquet(self.output))
