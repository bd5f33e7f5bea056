"""Measurements: Tailrace beside Apache Kafka 4.1 (`python -m bench`), and of its parts one by one."""
