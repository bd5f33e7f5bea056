"""The Spark connector: `spark.read.format("tailrace")`, without a jar. It needs `pip install tailrace[spark]`.

It reads topics of Tailrace and of any Kafka, with the options, columns and checkpoints of Spark's own Kafka connector.

    from tailrace.spark import session

    spark = session()
    flights = spark.read.format("tailrace").option("kafka.bootstrap.servers", "localhost:9092")
    flights.option("subscribe", "flights").load().show()

Where this package is installed, Spark finds the name `tailrace` by itself.
"""

from tailrace.spark.spark_session import register, session

__all__ = ["register", "session"]
