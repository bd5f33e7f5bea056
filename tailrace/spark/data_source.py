"""The data source as Spark knows it: its name, its columns, and who reads and writes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tailrace.spark.options import includes_headers, parse_source_options

datasource: Any = import_module("pyspark.sql.datasource")


class TailraceDataSource(datasource.DataSource):  # pyright: ignore[reportUntypedBaseClass]
    """Topics of Tailrace or of any Kafka: `spark.read.format("tailrace")`."""

    @classmethod
    def name(cls) -> str:
        """Give the name for `format`."""
        return "tailrace"

    def schema(self) -> str:
        """Give the source's columns."""
        from tailrace.spark.columns import source_schema

        return source_schema(include_headers=includes_headers(self.options))

    def reader(self, schema: Any) -> Any:
        """Give the reader of a batch query."""
        from tailrace.spark.batch_reader import BatchReader

        options = parse_source_options(self.options, is_streaming=False)
        _check(schema, options.include_headers)
        return BatchReader(options, schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """Give the reader of a streaming query."""
        from tailrace.spark.stream_reader import StreamReader

        options = parse_source_options(self.options, is_streaming=True)
        _check(schema, options.include_headers)
        return StreamReader(options, schema)


def _check(schema: Any, include_headers: bool) -> None:
    """Refuse columns that there are not."""
    from tailrace.spark.columns import check_columns

    columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    check_columns(columns, include_headers=include_headers)
