"""What goes wrong inside a batch, before the reader turns it into the error that goes on the wire."""

from __future__ import annotations


class CorruptStream(Exception):
    """Bytes that are no stream of their codec, or one that stands for more bytes than are allowed."""


class CorruptRecords(Exception):
    """Bytes that are not the records their batch says they are."""
