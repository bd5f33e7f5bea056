"""Compaction of messages that were written before Kafka 0.11, in logs that are older than their broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tailrace.protocol.records.compression import Compression, compress
from tailrace.protocol.records.reader import read_records
from tailrace.storage.batch_scan import walk
from tailrace.storage.log import Log
from tests.protocol.records.record_strategies import message
from tests.storage.compaction_workshop import clean, put
from tests.storage.log_workshop import config, open_log

DAY_MS = 86_400_000


def old_log(directory: Path, *segments: tuple[int, bytes]) -> Log:
    directory.mkdir()
    for base_offset, data in segments:
        (directory / f"{base_offset:020d}.log").write_bytes(data)
    settings = config(cleanup_policy="compact", segment_bytes=400)
    log = open_log(directory, settings=settings, was_clean_stop=False, high_watermark=2**62)
    assert log.failure is None
    return log


def found(log: Log) -> list[tuple[int, int, bytes | None, bytes | None]]:
    records = [
        record
        for segment in log.segments
        for record in read_records(bytes(segment.view[: segment.size]))
        if segment.size
    ]
    return [(one.offset, one.timestamp, one.key, one.value) for one in records]


def magics(log: Log) -> list[int]:
    return [span.magic for segment in log.segments for span in walk(segment.view, 0, segment.size)]


@pytest.mark.parametrize("magic", [0, 1])
def test_single_messages_stay_or_go_as_they_are(tmp_path: Path, magic: int) -> None:
    first = message(0, b"a", b"1", magic=magic, timestamp=5)
    kept = message(1, b"b", b"1", magic=magic, timestamp=6)
    log = old_log(tmp_path / "flights-0", (0, first + kept + message(2, None, b"keyless", magic=magic)))
    put(log, ("a", "2"))
    log.roll()
    clean(log)
    assert bytes(log.segments[0].view[: len(kept)]) == kept
    timestamp = 6 if magic else -1
    assert found(log)[:1] == [(1, timestamp, b"b", b"1")]
    assert [one[0] for one in found(log)] == [1, 3]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_what_is_left_of_a_set_becomes_a_batch_of_today(tmp_path: Path, codec: Compression) -> None:
    inner = b"".join(message(n, key, b"1", magic=1, timestamp=100 + n) for n, key in enumerate((b"a", b"b", b"c")))
    wrapped = message(2, None, bytes(compress(codec, inner)), magic=1, timestamp=102, attributes=codec)
    log = old_log(tmp_path / "flights-0", (0, wrapped))
    put(log, ("b", "2"))
    log.roll()
    clean(log)
    assert found(log)[:2] == [(0, 100, b"a", b"1"), (2, 102, b"c", b"1")]
    assert [one[0] for one in found(log)] == [0, 2, 3]
    assert magics(log) == [2, 2]
    assert log.segments[0].view[22] & 7 == codec


def test_append_time_of_a_set_stays(tmp_path: Path) -> None:
    inner = b"".join(message(n, key, b"1", magic=1, timestamp=100 + n) for n, key in enumerate((b"a", b"b")))
    packed = bytes(compress(Compression.GZIP, inner))
    wrapped = message(1, None, packed, magic=1, timestamp=777, attributes=Compression.GZIP | 8)
    log = old_log(tmp_path / "flights-0", (0, wrapped))
    put(log, ("b", "2"))
    log.roll()
    clean(log)
    assert found(log)[0] == (0, 777, b"a", b"1")


def test_old_tombstone_goes_when_its_segment_is_old(tmp_path: Path) -> None:
    """Before horizons were written down, it was the age of a segment's file that decided."""
    tombstone = message(0, b"gone", None, magic=1, timestamp=5)
    filler = message(1, b"a", b"1" * 350, magic=1, timestamp=5)
    log = old_log(tmp_path / "flights-0", (0, tombstone), (1, filler))
    os.utime(log.segments[0].log_path, ns=(10**9, 10**9))
    put(log, ("b", "2"))
    log.roll()
    checkpoint = clean(log)
    assert (0, 5, b"gone", None) in found(log)
    now = log.context.clock.time_ms()
    for segment, modified_ms in zip(log.segments, (now - 2 * DAY_MS, now, now), strict=False):
        os.utime(segment.log_path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
    put(log, ("c", "2"))
    log.roll()
    clean(log, checkpoint=checkpoint)
    assert [one[2] for one in found(log)] == [b"a", b"b", b"c"]
