"""JSON becomes typed columns as Python's own parser reads it, and what is corrupt stays alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tailrace.spark.json_values import check_json_type, decode_json  # noqa: E402 - it needs pyarrow

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("mean", pa.float64()),
        ("late", pa.bool_()),
        ("tags", pa.list_(pa.int32())),
        ("place", pa.struct([("x", pa.int16())])),
    ]
)
NAMES = [field.name for field in KIND]

documents = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(),
        "mean": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "late": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "place": st.none() | st.fixed_dictionaries({"x": st.integers(-9, 9)}),
        "other": st.integers(),
    },
)
good = st.tuples(documents, st.sampled_from([None, 2]), st.sampled_from(["", " ", "\n"])).map(
    lambda made: (json.dumps(made[0], indent=made[1]).encode() + made[2].encode(), made[0])
)
bad = st.sampled_from(
    [
        b"",
        b"  ",
        b"{",
        b"}",
        b"{}{}",
        b'{"id":"1"}',
        b'{"name":1}',
        b"[1]",
        b"null",
        b'{"id":1,"id":2}',
        b"\xff",
        b"{\xff}",
    ]
).map(lambda text: (text, None))


def decoded(values: list[bytes | None]) -> tuple[list[Any], list[Any]]:
    structs, corrupt = decode_json(pa.array(values, pa.binary()), KIND)
    assert structs.type == KIND
    assert len(structs) == len(corrupt) == len(values)
    structs.validate(full=True)
    return structs.to_pylist(), corrupt.to_pylist()


@settings(max_examples=60, deadline=None)
@given(st.lists(good | bad | st.just((None, None)), max_size=12))
def test_every_value_comes_out_as_itself_or_as_corrupt(made: list[tuple[bytes | None, dict[str, Any] | None]]) -> None:
    structs, corrupt = decoded([value for value, _ in made])
    for (value, document), struct, wrong in zip(made, structs, corrupt, strict=True):
        if document is None:
            assert (struct, wrong) == (None, value)
        else:
            assert struct == {name: document.get(name) for name in NAMES}
            assert wrong is None


def test_one_corrupt_value_among_many_is_found() -> None:
    values: list[bytes | None] = [b'{"id":%d}' % n for n in range(1000)]
    values[617] = b'{"id":six}'
    structs, corrupt = decoded(values)
    assert [row["id"] for row in structs if row] == [n for n in range(1000) if n != 617]
    assert [n for n, wrong in enumerate(corrupt) if wrong] == [617]


def test_a_slice_is_decoded_by_itself() -> None:
    values = pa.array([b"broken", b'{"id":1}', b'{"id":2}', b"broken"], pa.binary()).slice(1, 2)
    structs, corrupt = decode_json(values, KIND)
    assert [row["id"] for row in structs.to_pylist()] == [1, 2]
    assert corrupt.null_count == 2


@pytest.mark.parametrize("kind", [pa.binary(), pa.date32(), pa.decimal128(9, 2), pa.map_(pa.string(), pa.string())])
def test_types_that_json_is_not_decoded_to_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="valueSchema: JSON is not decoded to"):
        check_json_type(pa.struct([("ok", pa.int64()), ("list", pa.list_(kind))]))
    check_json_type(KIND)
    with pytest.raises(ValueError, match="without fields"):
        check_json_type(pa.struct([]))
