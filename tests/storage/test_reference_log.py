"""A log that Apache Kafka 4.1 wrote, and what Kafka answers about it."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tailrace.protocol.records.batch_header import iterate_batch_headers
from tailrace.protocol.records.reader import read_batch
from tailrace.storage.log import Log
from tests.storage.golden import REFERENCE_ANSWERS, copy_reference_log
from tests.storage.log_workshop import append, config, open_log, read_all

INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")
DAMAGES = ["as it is", "no indexes", "no snapshots", "nothing but logs", "indexes cut", "indexes of zeros", "killed"]


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    with gzip.open(REFERENCE_ANSWERS) as file:
        answers: dict[str, Any] = json.load(file)
    return answers


@pytest.fixture(params=DAMAGES)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    directory = copy_reference_log(tmp_path)
    for path in directory.iterdir():
        damage(path, request.param)
    return open_log(
        directory,
        settings=config(retention_ms=-1),
        was_clean_stop=request.param != "killed",
        high_watermark=33978,
    )


def damage(path: Path, what: str) -> None:
    is_index = path.suffix in INDEX_SUFFIXES[:3]
    if (
        (what == "no indexes" and is_index)
        or (what == "no snapshots" and path.suffix == ".snapshot")
        or (what == "nothing but logs" and path.suffix in INDEX_SUFFIXES)
    ):
        path.unlink()
    elif what == "indexes cut" and is_index:
        path.write_bytes(path.read_bytes()[:-5])
    elif what == "indexes of zeros" and is_index:
        path.write_bytes(bytes(path.stat().st_size))


def consume(log: Log, *, committed: bool, max_bytes: int) -> list[list[Any]]:
    """Read as a consumer does, leaving out aborted transactions by their list."""
    records: list[list[Any]] = []
    upper = log.last_stable_offset if committed else log.high_watermark
    offset = log.log_start_offset
    while offset < upper:
        result = log.read(offset, max_bytes=max_bytes, upper_offset=upper, min_one_message=True)
        aborted = sorted(log.collect_aborted_transactions(offset, upper), key=lambda entry: entry.first_offset)
        open_aborted: set[int] = set()
        next_offset = offset
        for position, header in iterate_batch_headers(result.records, allow_partial_tail=True):
            next_offset = header.next_offset
            while committed and aborted and aborted[0].first_offset <= header.last_offset:
                open_aborted.add(aborted.pop(0).producer_id)
            if header.is_control:
                open_aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_aborted):
                records += [
                    [
                        record.offset,
                        record.timestamp,
                        None if record.key is None else record.key.decode(),
                        None if record.value is None else zlib.crc32(record.value),
                    ]
                    for record in read_batch(result.records, position, header)
                    if record.offset >= offset
                ]
        assert next_offset > offset
        offset = next_offset
    return records


def test_every_answer_is_kafkas(log: Log, reference: dict[str, Any]) -> None:
    assert not log.is_offline
    assert (log.log_start_offset, log.high_watermark) == (reference["low"], reference["high"])
    assert log.last_stable_offset == log.high_watermark
    for timestamp, offset in reference["offsets_for_times"]:
        found = log.offset_for_timestamp(timestamp)
        assert (-1 if found is None else found.offset) == offset, timestamp
    for level in ("read_uncommitted", "read_committed"):
        assert consume(log, committed=level == "read_committed", max_bytes=200_000) == reference[level]


def test_the_largest_timestamp_is_the_first_record_that_has_it(log: Log, reference: dict[str, Any]) -> None:
    largest = max(timestamp for _, timestamp, _, _ in reference["read_uncommitted"])
    first = next(offset for offset, timestamp, _, _ in reference["read_uncommitted"] if timestamp == largest)
    found = log.offset_of_max_timestamp()
    assert found is not None
    if found.timestamp == largest:
        assert found.offset == first
    else:  # a transaction's marker is the newest: Kafka counts it too
        assert found.timestamp > largest


def test_the_producers_of_the_snapshot_are_known(log: Log) -> None:
    states = {state.producer_id: state for state in log.producer_states()}
    assert states
    assert all(state.current_transaction_first_offset is None for state in states.values())


def test_appending_goes_on_where_kafka_stopped(log: Log) -> None:
    result = append(log, b"one more", leader_epoch=1)
    assert result.first_offset == 33978
    assert [record.value for record in read_all(log, start=33978)] == [b"one more"]
    assert log.latest_epoch == 1
