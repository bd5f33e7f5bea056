"""How Spark finds the data source `tailrace` without being told: it looks into every package named `pyspark_*`."""

from tailrace.spark.data_source import TailraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
