"""Who gets which partition: the assignors that run on the broker (KIP-848), by name."""
