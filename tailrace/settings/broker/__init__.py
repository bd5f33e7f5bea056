"""The broker's settings, by subject. `BrokerConfig` is all of them together."""
