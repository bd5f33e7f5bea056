"""Coordinators' records: Kafka's own bytes, the versions that are written, and bytes that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.protocol.coordinator.consumer_group import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from tailrace.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.coordinator.record_codec import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    RecordTable,
    UnknownRecord,
    decode_key,
    decode_record,
    decode_value,
    encode_record,
    written_version,
)
from tailrace.protocol.coordinator.transaction_log import TransactionLogValue
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.json_form import message_to_json

GOLDEN = Path(__file__).parents[2] / "golden" / "coordinator-records.jsonl"
"""Written by the classes of Apache Kafka 4.1: type, version, fields and bytes with the prefix they have in the log."""
ROWS: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def table_of(name: str) -> RecordTable:
    return TRANSACTION_RECORDS if name.startswith("Transaction") else GROUP_RECORDS


def ids(row: dict[str, Any]) -> str:
    return f"{row['type']}-{row['version']}"


@pytest.mark.parametrize("row", [row for row in ROWS if row["type"].endswith("Key")], ids=ids)
def test_kafkas_keys(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    key = decode_key(table_of(row["type"]), data)
    assert not isinstance(key, UnknownRecord)
    assert type(key).__name__ == row["type"]
    assert message_to_json(key, 0) == row["json"]
    assert encode_record(key, None) == (data, None)


@pytest.mark.parametrize("row", [row for row in ROWS if row["type"].endswith("Value")], ids=ids)
def test_kafkas_values(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    table = table_of(row["type"])
    (key_class,) = {kind.key_class for kind in table.values() if kind.value_class.__name__ == row["type"]}
    value = decode_value(table, key_class(), data)
    form = message_to_json(value, row["version"])
    assert {name: form[name] for name in row["json"]} == row["json"]
    assert encode_record(key_class(), value, version=row["version"])[1] == data


def test_the_golden_records_are_of_every_kind() -> None:
    classes = {
        cls.__name__ for table in (GROUP_RECORDS, TRANSACTION_RECORDS) for kind in table.values() for cls in kind
    }
    assert {row["type"] for row in ROWS} == classes


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (OffsetCommitValue(offset=1), 4),
        (OffsetCommitValue(offset=1, expire_timestamp=5), 1),
        (GroupMetadataValue(members=[MemberMetadata(group_instance_id="i")]), 3),
        (ConsumerGroupMetadataValue(), 0),
        (TransactionLogValue(), 1),
    ],
    ids=lambda value: getattr(type(value), "__name__", None),
)
def test_values_are_written_in_the_version_of_kafka_4_1(value: Any, version: int) -> None:
    assert written_version(value) == version


def test_an_offset_with_its_own_expiry_keeps_it_and_loses_what_its_version_cannot_say() -> None:
    value = OffsetCommitValue(offset=7, leader_epoch=3, commit_timestamp=10, expire_timestamp=20)
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    data = encode_record(key, value)
    assert decode_record(GROUP_RECORDS, *data) == CoordinatorRecord(
        key, OffsetCommitValue(offset=7, commit_timestamp=10, expire_timestamp=20)
    )


def test_a_key_of_the_first_days_is_one_of_today() -> None:
    data = b"\x00\x00" + encode_record(OffsetCommitKey(group="g", topic="t", partition=1), None)[0][2:]
    assert decode_key(GROUP_RECORDS, data) == OffsetCommitKey(group="g", topic="t", partition=1)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    key = ConsumerGroupMetadataKey(group_id="g")
    assert decode_record(GROUP_RECORDS, *encode_record(key, None)) == CoordinatorRecord(key, None)


def test_what_others_write_is_unknown_and_no_error() -> None:
    assert decode_record(GROUP_RECORDS, b"\x00\x0b\x00\x01g", b"\x00\x00") == UnknownRecord(11)
    assert decode_record(TRANSACTION_RECORDS, b"\x00\x02\x00\x01g", b"\x00\x00") == UnknownRecord(2)


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x02", b"\x00\x02\x00\x05g", b"\x00\x02\x00\x01gg"])
def test_keys_that_are_none(key: bytes | None) -> None:
    with pytest.raises(MalformedFrame):
        decode_record(GROUP_RECORDS, key, None)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x05", b"\xff\xff", b"\x00\x03\x00"])
def test_values_that_are_none(value: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_record(GROUP_RECORDS, encode_record(GroupMetadataKey(group="g"), None)[0], value)
