"""Every buffer that Apache Kafka wrote is read to the records Kafka reads from it, and what can be, written again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.protocol.records.batch_header import (
    TimestampType,
    crc_matches,
    iterate_batch_headers,
    read_batch_header,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import ControlType, EndTxnMarker, read_control_batch, write_end_txn_marker
from tailrace.protocol.records.reader import read_batch, read_records
from tailrace.protocol.records.writer import write_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "record-batches.jsonl.gz"
LINES: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]
DATA = [line for line in LINES if "records" in line]
CONTROL = [line for line in LINES if "control" in line]


def name_line(line: dict[str, Any]) -> str:
    return f"{LINES.index(line)}-magic{line['magic']}-{line.get('compression') or line['control']}"


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def expected_records(line: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            record["offset"],
            record["timestamp"],
            unhex(record["key"]),
            unhex(record["value"]),
            [(key, unhex(value)) for key, value in record["headers"]],
        )
        for record in line["records"]
    ]


@pytest.mark.parametrize("line", DATA, ids=name_line)
def test_records_are_what_kafka_reads(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["hex"])
    for buffer in (data, bytearray(data), memoryview(data)):
        got = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in read_records(buffer)]
        assert got == expected_records(line)
        assert all(type(r.value) is bytes for r in read_records(buffer) if r.value is not None)


@pytest.mark.parametrize("line", [line for line in DATA if line["magic"] == 2], ids=name_line)
def test_headers_are_what_kafka_wrote_and_batches_are_written_again(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["hex"])
    for position, header in iterate_batch_headers(data):
        assert crc_matches(data, position, header)
        assert header.compression.label == line["compression"]
        assert header.is_transactional is line["transactional"]
        assert header.has_producer_id is line["idempotent"]
        assert header.timestamp_type.label == line["timestamp_type"]
        again = write_batch(
            read_batch(data, position, header, stored_timestamps=True),
            base_offset=header.base_offset,
            compression=header.compression,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
            timestamp_type=header.timestamp_type,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.partition_leader_epoch,
            is_transactional=header.is_transactional,
        )
        if header.compression is Compression.NONE:
            assert again == data[position : position + header.size]
        rewritten = read_batch_header(again)
        assert read_batch(again, 0, rewritten) == read_batch(data, position, header)
        rewritten.crc, rewritten.batch_length = header.crc, header.batch_length
        assert rewritten == header


@pytest.mark.parametrize("line", CONTROL, ids=name_line)
def test_control_batches_are_read_and_written_to_the_same_bytes(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["hex"])
    header = read_batch_header(data)
    marker = read_control_batch(data, 0, header)
    assert marker == EndTxnMarker(ControlType[line["control"]], line["coordinator_epoch"])
    assert header.is_control
    assert header.is_transactional
    assert header.timestamp_type is TimestampType.CREATE_TIME
    again = write_end_txn_marker(
        marker,
        producer_id=line["producer_id"],
        producer_epoch=line["producer_epoch"],
        timestamp=line["timestamp"],
        base_offset=line["base_offset"],
        leader_epoch=line["leader_epoch"],
    )
    assert again == data
