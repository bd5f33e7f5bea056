"""`tailrace log dump`: shows what is there, and finds what is wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tailrace.cli.log_checks import TimeEntry, check_time_index, read_time_index
from tailrace.cli.main import main
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.storage.producer_snapshot import snapshot_bytes
from tests.protocol.records.record_strategies import message

BASE = 100
LOG = f"{BASE:020}.log"
INDEX = f"{BASE:020}.index"
TIMES = f"{BASE:020}.timeindex"


def batch(first: int, count: int, codec: Compression = Compression.NONE) -> bytes:
    records = [Record(first + n, 1000 + first + n, b"key %d" % n, b"\xff%d" % n, [("h", b"x")]) for n in range(count)]
    return bytes(
        write_batch(records, base_offset=first, compression=codec, producer_id=9, producer_epoch=1, base_sequence=0)
    )


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition with three batches and a marker in a preallocated segment, and indexes that fit."""
    batches = [batch(100, 5), batch(105, 5, Compression.ZSTD), batch(110, 2)]
    marker = write_end_txn_marker(
        EndTxnMarker(ControlType.ABORT, 4), producer_id=9, producer_epoch=1, timestamp=5, base_offset=112
    )
    data = b"".join(batches) + bytes(marker)
    (tmp_path / LOG).write_bytes(data + bytes(1000))
    second = len(batches[0])
    (tmp_path / INDEX).write_bytes(struct.pack(">iiii", 9, second, 11, second + len(batches[1])) + bytes(80))
    (tmp_path / TIMES).write_bytes(struct.pack(">qiqi", 1109, 9, 1111, 11) + bytes(120))
    (tmp_path / f"{BASE:020}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 100, 112, 113))
    (tmp_path / f"{113:020}.snapshot").write_bytes(snapshot_bytes([]))
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n0 100\n")
    return tmp_path


def damage(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["log", "dump", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_sound_partition_has_nothing_wrong(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, partition)
    assert code == 0
    assert "offsets=105-109 count=5" in out
    assert "compression=zstd CreateTime=1109 producer_id=9 producer_epoch=1 sequences=0-4" in out
    assert "transactional control" in out
    assert "1000 bytes preallocated from position" in out
    assert "producer_id=9 first_offset=100 last_offset=112 last_stable_offset=113" in out
    assert "  0 100" in out
    assert err == "6 files, 4 batches, 0 records: nothing wrong\n"


def test_records_are_shown_with_their_values(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = run(capsys, partition / LOG, "--values")
    assert "offset=105 timestamp=1105 key=5 value=2 headers=1 sequence=0" in out
    assert "key: 'key 0'" in out
    assert "value: 0xff30" in out
    assert "header 'h': 'x'" in out
    assert "control=abort coordinator_epoch=4" in out
    assert "13 records" in err


def test_a_flipped_bit_is_found(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(partition / LOG, 70, b"\x55")
    code, out, err = run(capsys, partition / LOG)
    assert code == 1
    assert " WRONG" in out
    assert "position 0: the CRC of the batch at offset 100 is wrong" in err
    assert "4 batches" in err, "the others are still read"


@pytest.mark.parametrize(
    ("position", "data", "said"),
    [
        (16, b"\x09", "magic 9"),
        (8, b"\x00\x00\x00\x01", "batch length 1"),
        (8, b"\x7f\xff\xff\xff", "cut off"),
    ],
)
def test_what_is_no_batch_is_found(
    partition: Path, capsys: pytest.CaptureFixture[str], position: int, data: bytes, said: str
) -> None:
    damage(partition / LOG, position, data)
    code, _, err = run(capsys, partition / LOG)
    assert code == 1
    assert said in err
    assert "were not read" in err


def test_offsets_that_go_back_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOG).write_bytes(batch(105, 5) + batch(107, 2))
    _, _, err = run(capsys, tmp_path / LOG)
    assert "offset 107 after 109" in err


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        (INDEX, struct.pack(">ii", 8, 1), "no batch begins at position 1"),
        (INDEX, struct.pack(">ii", 8, 0), "offset 108: the batch at position 0 ends with 104"),
        (INDEX, struct.pack(">ii", 12, 0), "comes after offset 112"),
        (TIMES, struct.pack(">qi", 9999, 9), "timestamp 9999 at offset 109: up to there the largest is 1109"),
        (TIMES, struct.pack(">qi", 9999, 9), "comes after (9999, 109)"),
        (f"{BASE:020}.txnindex", struct.pack(">hqq", 3, 9, 500), "has version 3"),
        (f"{BASE:020}.txnindex", struct.pack(">hqq", 0, 9, 500), "out of order: 500 to 112"),
        (f"{113:020}.snapshot", b"\x00\x07", "version 7"),
    ],
)
def test_entries_that_do_not_fit_are_found(
    partition: Path, capsys: pytest.CaptureFixture[str], name: str, entry: bytes, said: str
) -> None:
    damage(partition / name, 0, entry)
    code, _, err = run(capsys, partition, "--check")
    assert code == 1
    assert said in err


def test_an_index_without_its_log_is_said(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (partition / LOG).unlink()
    code, _, err = run(capsys, partition / INDEX)
    assert code == 1
    assert f"there is no {LOG}" in err


def test_old_messages_and_empty_files_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOG).write_bytes(message(100, b"k", b"v", magic=1, timestamp=5))
    (tmp_path / f"{0:020}.log").write_bytes(b"")
    code, out, _ = run(capsys, tmp_path, "--records")
    assert code == 0
    assert "offsets=100-100 position=0 size=36 magic=1 compression=none" in out


def test_what_is_no_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert run(capsys, tmp_path)[0::2] == (1, f"tailrace: no file of a log in {tmp_path}\n")
    code, _, err = run(capsys, tmp_path / "notes.txt")
    assert code == 1
    assert err.count("\n") == 1
    assert run(capsys, tmp_path / "nothing.log")[0] == 2


def test_a_time_index_that_begins_at_zero_is_not_taken_for_an_empty_one() -> None:
    assert read_time_index(struct.pack(">qiqi", 0, 0, 5, 1), 0) == [TimeEntry(0, 0), TimeEntry(5, 1)]
    assert read_time_index(bytes(48), 0) == []
    assert check_time_index([TimeEntry(5, 1), TimeEntry(4, 2)], None) == ["(4, 2) comes after (5, 1)"]
