"""Tailrace: a Kafka broker, client and Spark data source in Python."""

__version__ = "0.1.0"
