"""Producer ids, none of which is ever given twice.

Ids are taken from a block of a thousand; before the first of a block is given, the block's end is on disk, so a killed
broker skips what was left of its block. The next block is reserved on a thread while a tenth of this one is left. The
file, `tailrace-producer-ids`, is a checkpoint file with one entry: the first id that no block has, and a checksum,
because a digit that changed would give ids away a second time.

Partitions copied from another cluster bring producers of their own: ids begin above theirs, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from tailrace.clock import Clock
from tailrace.protocol.checksum import crc32c
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.checkpoint_file import read_lines, write_lines
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.log import Log

LOGGER = logging.getLogger(__name__)

FILE_NAME = "tailrace-producer-ids"
DAMAGED_SUFFIX = ".damaged"
BLOCK_SIZE = 1000
PREFETCH_AT = 900
"""How many ids of a block are given when the next one is reserved."""
PRODUCER_ID_LAST = 2**63 - 1


class ProducerIds:
    """The producer ids of a broker."""

    def __init__(self, disk: Disk, directory: Path, clock: Clock) -> None:
        self._disk = disk
        self._path = directory / FILE_NAME
        self._clock = clock
        self._next_id = 0
        self._block_end = 0
        self._following_block: int | None = None
        self._reserving: asyncio.Task[None] | None = None

    def start(self, logs: Iterable[Log]) -> None:
        """Read what was given before, look at the producers of `logs`, and reserve a block. Blocks for a sync.

        Raises DiskError where the block can't be reserved: a broker that can't give ids has to say so at once.
        """
        used = max((state.producer_id for log in logs for state in log.producer_states()), default=-1)
        self._next_id = max(self._read(), used + 1)
        self._block_end = self._next_id + BLOCK_SIZE
        self._write(self._block_end)

    def next_producer_id(self) -> int:
        """Give an id that nobody had; raise COORDINATOR_LOAD_IN_PROGRESS while no block is reserved, as Kafka does."""
        if self._next_id == self._block_end:
            self._begin_following_block()
        producer_id = self._next_id
        self._next_id += 1
        if self._block_end - self._next_id <= BLOCK_SIZE - PREFETCH_AT:
            self._reserve()
        return producer_id

    async def stop(self) -> None:
        """Wait until a block that is being reserved is written."""
        if self._reserving is not None:
            await asyncio.wait([self._reserving])

    def _begin_following_block(self) -> None:
        if self._following_block is None:
            self._reserve()
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next block of producer ids is being reserved")
        self._next_id = self._following_block
        self._block_end = self._next_id + BLOCK_SIZE
        self._following_block = None

    def _reserve(self) -> None:
        if self._following_block is None and self._reserving is None:
            self._reserving = asyncio.get_running_loop().create_task(self._reserve_block(self._block_end))

    async def _reserve_block(self, first_id: int) -> None:
        try:
            await asyncio.to_thread(self._write, first_id + BLOCK_SIZE)
            self._following_block = first_id
        except DiskError:
            # The next request tries again; until that succeeds, producers are told to.
            LOGGER.exception("a block of producer ids could not be reserved")
        finally:
            self._reserving = None

    def _read(self) -> int:
        """Give the first id that no block has had; 0 where none was reserved."""
        if not self._disk.exists(self._path):
            return 0
        try:
            return _parse(self._path, read_lines(self._disk, self._path))
        except CorruptFile as error:
            kept = self._path.with_name(self._path.name + DAMAGED_SUFFIX)
            self._disk.rename(self._path, kept)
            # No broker gives a thousand million ids a second: the clock is above whatever was given before.
            LOGGER.error("%s; it is kept as %s, and producer ids go on from the clock", error, kept.name)
            return self._clock.time_ms()

    def _write(self, first_free_id: int) -> None:
        if first_free_id > PRODUCER_ID_LAST:
            raise DiskError("reserve producer ids", self._path, 0, "all 2^63 are given")
        text = str(first_free_id)
        write_lines(self._disk, self._path, [f"{text} {crc32c(text.encode()):08x}"])


def _parse(path: Path, entries: list[list[str]]) -> int:
    if len(entries) != 1 or len(entries[0]) != 2:
        raise CorruptFile(path, "one entry with an id and a checksum was expected")
    text, checksum = entries[0]
    if checksum != f"{crc32c(text.encode()):08x}" or not text.isdigit():
        raise CorruptFile(path, f"the checksum of {text!r} is not {checksum}")
    return int(text)
