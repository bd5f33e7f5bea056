"""The data source as Spark knows it: its name, its columns, and who reads and writes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tailrace.spark.options import SourceOptions, parse_column_options, parse_source_options
from tailrace.spark.sink_options import parse_sink_options

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

        include_headers, value_schema = parse_column_options(self.options)
        return source_schema(include_headers=include_headers, value_schema=value_schema)

    def reader(self, schema: Any) -> Any:
        """Give the reader of a batch query."""
        from tailrace.spark.batch_reader import BatchReader

        options = parse_source_options(self.options, is_streaming=False)
        _check(schema, options)
        return BatchReader(options, schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """Give the reader of a streaming query."""
        from tailrace.spark.stream_reader import StreamReader

        options = parse_source_options(self.options, is_streaming=True)
        _check(schema, options)
        return StreamReader(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Give the writer of a batch query."""
        from tailrace.spark.sink import BatchWriter

        return BatchWriter(parse_sink_options(self.options, _columns(schema), overwrites=overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Give the writer of a streaming query; the output mode `complete` is `overwrite` here."""
        from tailrace.spark.sink import StreamWriter

        return StreamWriter(parse_sink_options(self.options, _columns(schema), overwrites=False))


def _check(schema: Any, options: SourceOptions) -> None:
    """Refuse columns that there are not."""
    from tailrace.spark.columns import check_columns

    check_columns(_columns(schema), include_headers=options.include_headers, decodes_json=options.decodes_json)


def _columns(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
