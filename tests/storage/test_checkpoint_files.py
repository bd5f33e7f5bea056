"""The small files of a data directory: what they say, and what happens when they say nonsense."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import parse_uuid
from tailrace.storage.checkpoint_file import OffsetCheckpointFile
from tailrace.storage.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from tailrace.storage.directory_lock import DirectoryInUse, lock_directory
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from tailrace.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from tailrace.testing.faulty_disk import FaultyDisk, ProcessKilled

CHECKPOINT = "recovery-point-offset-checkpoint"
KAFKA_META_PROPERTIES = (
    "#\n#Sat Nov 21 09:10:07 UTC 2026\nnode.id=1\ndirectory.id=3uALnyRySYSxu89u3tSh0w\nversion=1\n"
    "cluster.id=MkU3OEVBNTcwNTJENDM2Qg"
)


def test_checkpoint_has_one_line_a_partition(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpointFile(Disk(), tmp_path / CHECKPOINT)
    assert checkpoint.read() == {}
    offsets = {TopicPartition("flights", 0): 1024, TopicPartition("with.dots_and-dash", 12): 2**40}
    checkpoint.write(offsets)
    assert checkpoint.path.read_text() == f"0\n2\nflights 0 1024\nwith.dots_and-dash 12 {2**40}\n"
    assert checkpoint.read() == offsets
    checkpoint.write({})
    assert checkpoint.read() == {}
    assert checkpoint.path.read_text() == "0\n0\n"


def test_empty_checkpoint_has_no_entries(tmp_path: Path) -> None:
    """Kafka makes the files empty when it starts, and writes them when there is something to say."""
    (tmp_path / CHECKPOINT).touch()
    assert OffsetCheckpointFile(Disk(), tmp_path / CHECKPOINT).read() == {}


@pytest.mark.parametrize(
    "text",
    ["\n", "0", "1\n0\n", "0\n1\n", "0\n0\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n1\na 0 -5\n",
     "0\n1\na 0 \u0661\n", "0\n2\na 0 1\na 0 2\n", "zero\n0\n", "0\n1\na b 0 1\n"],
)  # fmt: skip
def test_damaged_checkpoint_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / CHECKPOINT).write_text(text)
    with pytest.raises(CorruptFile):
        OffsetCheckpointFile(Disk(), tmp_path / CHECKPOINT).read()


@pytest.mark.parametrize("operation", ["open", "truncate", "write", "sync", "rename"])
def test_failed_write_of_a_checkpoint_keeps_the_old_one(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk(tmp_path)
    checkpoint = OffsetCheckpointFile(disk, tmp_path / CHECKPOINT)
    checkpoint.write({TopicPartition("a", 0): 1})
    disk.fail(operation)
    with pytest.raises(DiskError):
        checkpoint.write({TopicPartition("a", 0): 2})
    assert checkpoint.read() == {TopicPartition("a", 0): 1}


def test_kill_at_any_call_leaves_the_old_checkpoint_or_the_new(tmp_path: Path) -> None:
    seen: set[int] = set()
    for calls in range(12):
        disk = FaultyDisk(tmp_path)
        OffsetCheckpointFile(Disk(), tmp_path / CHECKPOINT).write({TopicPartition("a", 0): 1})
        disk.kill_after(calls)
        try:
            OffsetCheckpointFile(disk, tmp_path / CHECKPOINT).write({TopicPartition("a", 0): 2})
        except ProcessKilled:
            assert disk.is_killed
        seen.add(OffsetCheckpointFile(Disk(), tmp_path / CHECKPOINT).read()[TopicPartition("a", 0)])
    assert seen == {1, 2}


def test_partition_metadata_comes_back(tmp_path: Path) -> None:
    assert read_partition_metadata(Disk(), tmp_path) is None
    topic_id = parse_uuid("SCPlI_y6R1CT7hVfYT-Ynw")
    write_partition_metadata(Disk(), tmp_path, topic_id)
    assert read_partition_metadata(Disk(), tmp_path) == topic_id
    with pytest.raises(ValueError, match="zero uuid"):
        write_partition_metadata(Disk(), tmp_path, bytes(16))


@pytest.mark.parametrize(
    "text",
    ["", "version: 1\ntopic_id: SCPlI_y6R1CT7hVfYT-Ynw", "version: 0", "version: 0\ntopic_id: SCPlI_y6R1CT7hVfYT-Yn",
     "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0\ntopic_id: ???", "version: 0\ntopic_id: "],
)  # fmt: skip
def test_damaged_partition_metadata_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(CorruptFile):
        read_partition_metadata(Disk(), tmp_path)


def test_meta_properties_of_kafka_are_read(tmp_path: Path) -> None:
    assert read_meta_properties(Disk(), tmp_path) is None
    (tmp_path / "meta.properties").write_text(KAFKA_META_PROPERTIES)
    expected = MetaProperties(
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=1, directory_id=parse_uuid("3uALnyRySYSxu89u3tSh0w")
    )
    assert read_meta_properties(Disk(), tmp_path) == expected
    write_meta_properties(Disk(), tmp_path, expected)
    assert read_meta_properties(Disk(), tmp_path) == expected
    lines = [line for line in KAFKA_META_PROPERTIES.splitlines() if not line.startswith("#")]
    assert (tmp_path / "meta.properties").read_text().splitlines() == lines


def test_meta_properties_of_an_old_kafka_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=3\ncluster.id=abc\n")
    assert read_meta_properties(Disk(), tmp_path) == MetaProperties(cluster_id="abc", node_id=3)


@pytest.mark.parametrize(
    "text",
    ["", "version=1\nnode.id=1", "version=1\nnode.id=x\ncluster.id=a", "version=1\ncluster.id=a", "node.id=1",
     "version=2\nbroker.id=1\ncluster.id=a", "version=1\nnode.id=1\ncluster.id=a\ndirectory.id=b", "\\u00"],
)  # fmt: skip
def test_damaged_meta_properties_are_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptFile):
        read_meta_properties(Disk(), tmp_path)


def test_clean_shutdown_is_seen_once(tmp_path: Path) -> None:
    assert take_clean_shutdown(Disk(), tmp_path) is None
    write_clean_shutdown(Disk(), tmp_path, broker_epoch=17)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":17}'
    assert take_clean_shutdown(Disk(), tmp_path) == 17
    assert take_clean_shutdown(Disk(), tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version":0}', '{"version":1,"brokerEpoch":3}', "null", '"x"'])
def test_clean_shutdown_without_an_epoch_is_still_clean(tmp_path: Path, text: str) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_text(text)
    assert take_clean_shutdown(Disk(), tmp_path) == -1


def test_taken_clean_shutdown_does_not_come_back_after_a_loss_of_power(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    write_clean_shutdown(disk, tmp_path)
    assert take_clean_shutdown(disk, tmp_path) == -1
    disk.lose_power()
    assert take_clean_shutdown(disk, tmp_path) is None


def test_directory_is_locked_against_a_second_broker_of_this_process(tmp_path: Path) -> None:
    lock = lock_directory(Disk(), tmp_path)
    with pytest.raises(DirectoryInUse, match="in use by another broker"):
        lock_directory(Disk(), tmp_path)
    lock.release()
    lock.release()
    lock_directory(Disk(), tmp_path).release()


def test_directory_is_locked_against_another_process_also_by_java_s_kind_of_lock(tmp_path: Path) -> None:
    lock = lock_directory(Disk(), tmp_path)
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b')\n"
        "try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('taken')\n"
        "except OSError: print('refused')"
    )
    command = [sys.executable, "-c", program, str(tmp_path / ".lock")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"
    lock.release()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "taken\n"


def test_lock_in_a_missing_directory_is_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError) as caught:
        lock_directory(Disk(), tmp_path / "missing")
    assert caught.value.is_missing
