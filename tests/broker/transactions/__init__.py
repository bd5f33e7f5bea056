"""Transactions: the machine, the coordinator, and what Apache Kafka answers to the same requests."""
