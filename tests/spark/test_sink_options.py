"""A sink's options and columns are checked as the official connector checks them."""

from __future__ import annotations

import re

import pytest

from tailrace.spark.sink_options import SinkOptions, parse_sink_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def parse(options: dict[str, str], *columns: tuple[str, str], overwrites: bool = False) -> SinkOptions:
    return parse_sink_options({**SERVERS, **options}, columns or [("value", "string")], overwrites=overwrites)


def test_the_topic_is_an_option_or_a_column() -> None:
    assert parse({"topic": "flights"}).topic == "flights"
    columns = [("value", "binary"), ("topic", "string"), ("key", "string"), HEADERS, ("partition", "int")]
    by_column = parse({}, *columns)
    assert (by_column.topic, set(by_column.columns)) == (None, {"value", "topic", "key", "headers", "partition"})
    assert "topic" not in parse({"topic": "flights"}, *columns).columns
    assert parse({"topic": "t"}, ("value", "binary"), ("timestamp", "timestamp"), ("other", "int")).columns == (
        "value",
    )
    assert parse({"topic": "t", "kafka.linger.ms": "20", "checkpointLocation": "x"}).kafka == {
        "bootstrap.servers": "localhost:9092",
        "linger.ms": "20",
    }


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, [("value", "string")], "topic option required when no 'topic' attribute is present."),
        ({"topic": "t"}, [("key", "string")], "Required attribute 'value' not found"),
        (
            {"topic": "t"},
            [("value", "int")],
            "value attribute unsupported type int. value must be a(n) string or binary",
        ),
        ({"topic": "t"}, [("value", "binary"), ("partition", "bigint")], "partition must be a(n) int"),
        ({}, [("value", "binary"), ("topic", "int")], "topic attribute unsupported type int"),
        ({"topic": "t"}, [("value", "binary"), ("headers", "string")], "headers attribute unsupported type string"),
        ({"topic": "t", "kafka.key.serializer": "x"}, [], "Kafka option 'key.serializer' is not supported"),
        ({"topic": "t", "kafka.value.serializer": "x"}, [], "Kafka option 'value.serializer' is not supported"),
        ({"topic": "t", "kafka.transactional.id": "x"}, [], "Kafka option 'transactional.id' is not supported"),
        ({"topic": "t", "kafka.acks": "5"}, [], "Kafka option acks=5"),
        ({"topic": "t", "exactlyOnce": "true"}, [], "Option 'exactlyOnce' is not supported"),
        ({"topic": " "}, [], "the option 'topic' is empty"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], columns: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(options, *columns)


def test_a_topic_is_not_overwritten_and_servers_have_to_be_named() -> None:
    with pytest.raises(ValueError, match="Save mode Overwrite not allowed for Kafka"):
        parse({"topic": "t"}, overwrites=True)
    with pytest.raises(ValueError, match=r"Option 'kafka.bootstrap.servers' must be specified"):
        parse_sink_options({"topic": "t"}, [("value", "string")], overwrites=False)
