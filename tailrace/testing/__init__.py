"""What tests of Tailrace, and tests that use it, share: the clock one can turn, faults."""
