"""Java's properties syntax: the same reading as the javaproperties package."""

from __future__ import annotations

import javaproperties
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.settings.properties_file import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b \n", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("  # no\n ! no\n\ta=b", {"a": "b"}),
        ("a=b\\\n   c\\\r\n  d", {"a": "bcd"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\\t\\n\\f\\r\\q\\u00e9", {"a": "\t\n\f\rq\xe9"}),
        ("a=\\\\u0041", {"a": "\\u0041"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("log.dirs=/a,\\\n\n  b=c", {"log.dirs": "/a,", "b": "c"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected
    assert javaproperties.loads(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "\\uzzzz=b", "a=\\u"])
def test_a_broken_escape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse_properties(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab#!=: \t\f\n\r\\nut0041\xe9", max_size=40))
def test_any_text_is_read_as_the_javaproperties_package_reads_it(text: str) -> None:
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(ValueError, match="four hexadecimal digits"):
            parse_properties(text)
    else:
        assert parse_properties(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=12)))
def test_what_is_written_is_read_back_by_both(values: dict[str, str]) -> None:
    text = format_properties(values)
    assert text.isascii()
    assert parse_properties(text) == values
    assert javaproperties.loads(text) == values


def test_a_file_is_written_as_the_javaproperties_package_writes_it() -> None:
    values = {"cluster.id": "a=b:c", " key": "  value \t\xe9", "#": "!"}
    assert format_properties(values) == javaproperties.dumps(values, timestamp=False)
