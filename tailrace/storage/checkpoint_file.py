"""Kafka's checkpoint files: small text files that are replaced whole.

    0                   the version
    2                   the number of lines that follow
    flights 0 1024      one entry a line, fields separated by blanks
    flights 1 998

A data directory has three that map partition to offset (topic, partition, offset); every partition directory has one of
leader epochs (epoch, start offset). Reading promises the entries that were written or `CorruptFile`; no default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
"""Up to which offset each log is known to be on disk: recovery begins there."""
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
"""Each partition's high watermark."""
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
"""Where a log begins, if that is not its first segment's beginning: after DeleteRecords."""
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
"""Up to which offset each compacted log is clean."""
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
VERSION = 0


def read_lines(disk: Disk, path: Path) -> list[list[str]]:
    """Read the entries of a checkpoint file, split at blanks."""
    data = disk.read_file(path)
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFile(path, f"a checkpoint file is text, this is not UTF-8: {error}") from error
    if len(lines) < 2:
        raise CorruptFile(path, f"{len(lines)} lines; a checkpoint file begins with a version and a count")
    version, count = _number(path, lines[0], "version"), _number(path, lines[1], "count")
    if version != VERSION:
        raise CorruptFile(path, f"unknown version {version} of a checkpoint file, {VERSION} expected")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count:
        raise CorruptFile(path, f"announces {count} entries and has {len(entries)}")
    return entries


def write_lines(disk: Disk, path: Path, entries: Iterable[str], *, sync: bool = True) -> None:
    """Replace a checkpoint file by these entries."""
    lines = list(entries)
    text = "\n".join([str(VERSION), str(len(lines)), *lines]) + "\n"
    disk.replace_file(path, text.encode("utf-8"), sync=sync)


class OffsetCheckpointFile:
    """A checkpoint that maps partitions to offsets."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self._disk = disk

    def read(self) -> dict[TopicPartition, int]:
        """Read the offsets; none where there is no file, or an empty one, as Kafka leaves it until it writes some."""
        if not self._disk.exists(self.path) or not self._disk.file_size(self.path):
            return {}
        offsets: dict[TopicPartition, int] = {}
        for fields in read_lines(self._disk, self.path):
            if len(fields) != 3:
                raise CorruptFile(self.path, f"an entry has topic, partition and offset, not {' '.join(fields)!r}")
            topic, partition, offset = fields
            key = TopicPartition(topic, _number(self.path, partition, "partition"))
            if key in offsets:
                raise CorruptFile(self.path, f"names {key} twice")
            offsets[key] = _number(self.path, offset, "offset")
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
        """Replace the offsets; may block for a sync, so long lists are written on a thread."""
        entries = [f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()]
        write_lines(self._disk, self.path, entries, sync=sync)


def _number(path: Path, text: str, what: str) -> int:
    """Read a number as Kafka writes it: digits only, none of what else Python takes for a number."""
    if not (text.isascii() and text.isdigit()):
        raise CorruptFile(path, f"{what} is no number: {text[:40]!r}")
    return int(text)
