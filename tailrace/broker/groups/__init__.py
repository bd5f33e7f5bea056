"""Consumer groups: state machines that decide, and the coordinator that does what they decide."""
