"""Brokers that are killed, disks that fail, bytes that flip: what was acknowledged stays."""
