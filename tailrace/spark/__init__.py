"""The Spark connector: `spark.read.format("tailrace")`, without a jar. It needs `pip install tailrace[spark]`.

It reads topics of Tailrace and of any Kafka, with the options, columns and checkpoints of Spark's own Kafka connector.
"""
