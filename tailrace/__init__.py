"""Tailrace: a Kafka broker, client and Spark data source in Python."""
