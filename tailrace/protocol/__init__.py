"""Bytes to values and back, without a socket, a file, a clock or a task."""
