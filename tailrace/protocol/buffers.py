"""The types in which bytes travel: at rest `bytes`, on the way `memoryview` or the `bytearray` a socket fills."""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
