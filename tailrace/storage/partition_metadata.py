"""The `partition.metadata` file: which topic a partition directory belongs to, whatever the directory is called.

    version: 0
    topic_id: SCPlI_y6R1CT7hVfYT-Ynw

A topic that was deleted and made again has another id, so its old directory is not taken for the new one (KIP-516).
"""

from __future__ import annotations

from pathlib import Path

from tailrace.protocol.uuid import ZERO_UUID, parse_uuid, uuid_text
from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile

FILE_NAME = "partition.metadata"
_VERSION = "0"


def read_partition_metadata(disk: Disk, directory: Path) -> bytes | None:
    """Give the topic id, None where there is no such file; `CorruptFile` where it is not to be understood."""
    path = directory / FILE_NAME
    if not disk.exists(path):
        return None
    lines = disk.read_file(path).decode("utf-8", "replace").splitlines()
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    if values.get("version") != _VERSION or "topic_id" not in values:
        raise CorruptFile(path, f"has no version 0 and topic_id: {lines[:3]}")
    try:
        topic_id = parse_uuid(values["topic_id"])
    except ValueError as error:
        raise CorruptFile(path, str(error)) from error
    if topic_id == ZERO_UUID:
        raise CorruptFile(path, "the topic id is zero, which stands for none")
    return topic_id


def write_partition_metadata(disk: Disk, directory: Path, topic_id: bytes, *, sync: bool = True) -> None:
    """Write the topic id, without a line end after it, as Kafka does."""
    if topic_id == ZERO_UUID:
        raise ValueError(f"{directory}: the zero uuid stands for no topic id and is not written down")
    text = f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}"
    disk.replace_file(directory / FILE_NAME, text.encode("ascii"), sync=sync)
