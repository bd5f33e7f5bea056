"""Every message of the protocol, one file an API, named as Kafka names it."""
