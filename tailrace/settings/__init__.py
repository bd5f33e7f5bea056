"""Every setting: its Kafka name, type, default, range, unit and meaning."""
