"""Batches made of Arrow columns hold the records that the columns had, whatever kinds of columns they are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.client.partitioner import KeyHashes, murmur2
from tailrace.protocol.records.batch_header import check_crc, read_batch_header
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tailrace.client.arrow_columns import RecordColumns, read_columns  # noqa: E402 - it needs pyarrow
from tailrace.client.murmur2_columns import hash_keys  # noqa: E402 - the same

NOW_MS = 1_700_000_000_000
HEADERS_LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
HEADERS_MAP = pa.map_(pa.string(), pa.binary())
KINDS = [
    pa.binary(),
    pa.string(),
    pa.large_binary(),
    pa.large_string(),
    pa.binary_view(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.binary()),
]
TIMES = [pa.int64(), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.timestamp("ns")]

texts = st.one_of(st.none(), st.text(max_size=12), st.text(alphabet="ab", min_size=100, max_size=300))
header = st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=200)))
seconds = st.one_of(st.none(), st.integers(0, 4_000_000_000))
records = st.lists(
    st.tuples(texts, texts, st.one_of(st.none(), st.lists(header, max_size=3)), seconds), min_size=1, max_size=60
)


def texts_of(kind: Any, values: list[str | None]) -> Any:
    return pa.array(values, type=pa.string()).cast(kind.value_type if pa.types.is_dictionary(kind) else kind)


def column_of(kind: Any, values: list[str | None]) -> Any:
    column = texts_of(kind, values)
    return column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column


def as_bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def decoded(columns: RecordColumns, compression: Compression = Compression.NONE) -> list[Record]:
    size = sum(size for _, _, size in columns.split(1 << 30))
    (builder,) = columns.builders([(0, len(columns), size)], compression, None)
    batch = builder.finish()
    header = read_batch_header(batch)
    check_crc(batch, 0, header)
    assert header.size == len(batch)
    assert header.records_count == len(columns)
    assert compression is not Compression.NONE or len(batch) <= size, "no more bytes than were reserved"
    found = list(read_records(batch))
    assert header.max_timestamp == max(record.timestamp for record in found)
    return found


def decoded_apart(columns: RecordColumns, bytes_max: int) -> list[Record]:
    """Decode the batches of `bytes_max` into which columns are divided, made last to first, with offsets going on."""
    splits = list(columns.split(bytes_max))
    builders = columns.builders(splits, Compression.NONE, None)
    batches = [builder.finish() for builder in reversed(builders)][::-1]
    found: list[Record] = []
    for (start, end, size), batch in zip(splits, batches, strict=True):
        header = read_batch_header(batch)
        check_crc(batch, 0, header)
        assert header.size == len(batch) <= max(size, bytes_max)
        records = list(read_records(batch))
        assert [record.offset for record in records] == list(range(end - start))
        found += [Record(start + r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]
    return found


def expected(rows: list[Any]) -> list[Record]:
    return [
        Record(
            offset,
            NOW_MS if at is None else at * 1000,
            as_bytes(key),
            as_bytes(value),
            tuple(headers or ()),
        )
        for offset, (key, value, headers, at) in enumerate(rows)
    ]


@settings(max_examples=150, deadline=None)
@given(
    rows=records,
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    headers_kind=st.sampled_from([HEADERS_LIST, HEADERS_MAP]),
    time_kind=st.sampled_from(TIMES),
    compression=st.sampled_from(Compression),
    before=st.integers(0, 3),
)
def test_a_batch_has_the_rows_of_its_columns(
    rows: list[Any], kinds: tuple[Any, Any], headers_kind: Any, time_kind: Any, compression: Compression, before: int
) -> None:
    """Also where the columns are a slice of longer ones."""
    times = [None if at is None else at * 1000 for *_, at in rows]
    in_unit = pa.array(times, type=pa.int64()) if time_kind == pa.int64() else None
    if in_unit is None:
        in_unit = pa.array(times, type=pa.int64()).cast(pa.timestamp("ms", time_kind.tz)).cast(time_kind)
    table = pa.table(
        {
            "key": column_of(kinds[0], [key for key, *_ in rows]),
            "value": column_of(kinds[1], [value for _, value, *_ in rows]),
            "headers": pa.array([headers for _, _, headers, _ in rows], type=headers_kind),
            "timestamp": in_unit,
            "note": pa.array(range(len(rows))),
        }
    )
    longer = pa.concat_tables([table.slice(0, before), table]).combine_chunks()
    batches = longer.slice(min(before, len(rows))).to_batches()
    (columns,) = [found for batch in batches for found in read_columns(batch, NOW_MS)]
    found = [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in decoded(columns, compression)
    ]
    assert found == expected(rows)
    assert decoded_apart(columns, 300) == expected(rows)


@pytest.mark.parametrize("kind", [pa.binary(4), pa.null()])
def test_values_of_one_size_and_no_values(kind: Any) -> None:
    values = [b"abcd", None] if kind == pa.binary(4) else [None, None]
    (columns,) = read_columns(pa.table({"value": pa.array(values, type=kind)}), NOW_MS)
    found = decoded(columns)
    assert [record.value for record in found] == values
    assert {record.key for record in found} == {None}
    assert {record.timestamp for record in found} == {NOW_MS}


def test_large_numbers_need_long_varints() -> None:
    times = [0, 2**62, 5, 1]
    table = pa.table({"value": [b"x" * 20_000] * 4, "timestamp": pa.array(times, type=pa.int64())})
    (columns,) = read_columns(table, NOW_MS)
    found = decoded(columns)
    assert [record.timestamp for record in found] == times
    assert {len(record.value or b"") for record in found} == {20_000}


def test_a_table_of_many_small_chunks_is_read_as_one() -> None:
    table = pa.concat_tables([pa.table({"value": [b"%d" % number]}) for number in range(50)])
    (columns,) = read_columns(table, NOW_MS)
    assert [record.value for record in decoded(columns)] == [b"%d" % number for number in range(50)]
    assert read_columns(table.slice(0, 0), NOW_MS) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=50), st.integers(0, 3))
def test_a_column_of_keys_hashes_like_its_keys(keys: list[bytes | None], before: int) -> None:
    column = pa.array([b"before"] * before + keys, type=pa.binary()).slice(before)
    hashed = hash_keys(column)
    for place, key in enumerate(keys):
        assert key is None or hashed[place] == murmur2(key) & 0x7FFFFFFF


def test_rows_are_grouped_by_key_as_single_records_are() -> None:
    random = Random(1)
    keys = [None if random.random() < 0.2 else b"%d" % random.randrange(100) for _ in range(500)]
    values = [b"%d" % number for number in range(500)]
    (columns,) = read_columns(pa.table({"key": keys, "value": values}), NOW_MS)
    hashes = KeyHashes()
    groups = dict(columns.by_partition(hashes, 7, None))
    for number, part in groups.items():
        mine = [
            place for place, key in enumerate(keys) if (-1 if key is None else hashes.partition_of(key, 7)) == number
        ]
        assert part.rows == mine
        assert [record.value for record in decoded(part)] == [values[place] for place in mine]
    assert sum(len(part) for part in groups.values()) == 500


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        ({"key": ["a"]}, ValueError, "records have a column `value`; here are key"),
        ({"value": [1.5]}, TypeError, "the column `value` is double"),
        ({"value": ["a"], "key": [[1]]}, TypeError, "the column `key` is list"),
        ({"value": ["a"], "timestamp": ["noon"]}, TypeError, "the column `timestamp` is string"),
        ({"value": ["a"], "headers": ["x"]}, TypeError, "the column `headers` is string"),
        ({"value": ["a"], "partition": [None]}, ValueError, "the column `partition` has nulls"),
        ({"value": ["a"], "partition": ["1"]}, TypeError, "the column `partition` is string"),
        ({"value": ["a"], "partition": [-2]}, ValueError, "the column `partition` has -2"),
    ],
)
def test_what_is_no_record_is_refused(table: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read_columns(pa.table(table), NOW_MS)


def test_a_header_has_a_key_and_data_are_arrow() -> None:
    headers = pa.array([[{"key": None, "value": b"x"}]], type=HEADERS_LIST)
    with pytest.raises(ValueError, match="a header without a key"):
        read_columns(pa.table({"value": ["a"], "headers": headers}), NOW_MS)
    with pytest.raises(TypeError, match="RecordBatch or Table is expected, not list"):
        read_columns([b"x"], NOW_MS)
