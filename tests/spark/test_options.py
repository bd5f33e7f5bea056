"""Options are read as the official connector reads them, and what it refuses is refused in its words."""

from __future__ import annotations

import re

import pytest

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.spark.offset_limits import Earliest, GivenOffsets, GivenTimestamp, GivenTimestamps, Latest
from tailrace.spark.options import SourceOptions, parse_column_options, parse_source_options
from tailrace.spark.topic_selection import Assign, Subscribe, SubscribePattern

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
FLIGHTS = {**SERVERS, "subscribe": "flights"}
FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


def parse(is_streaming: bool = False, **options: str) -> SourceOptions:
    return parse_source_options({**FLIGHTS, **options}, is_streaming=is_streaming)


def test_defaults_are_the_official_ones() -> None:
    batch, stream = parse(), parse(is_streaming=True)
    assert batch.selection == Subscribe(("flights",))
    assert (batch.starting, batch.ending) == (Earliest(), Latest())
    assert stream.starting == Latest()
    assert batch.fails_on_data_loss
    assert not batch.include_headers
    assert (batch.min_partitions, batch.max_records_per_partition) == (None, None)
    assert (stream.max_trigger_delay_ms, stream.offset_attempts, stream.poll_timeout_ms) == (900_000, 3, 120_000)
    assert batch.kafka == {"bootstrap.servers": "localhost:9092", "max.partition.fetch.bytes": "8388608"}


def test_names_are_taken_in_any_case() -> None:
    options = parse(FAILONDATALOSS="FALSE", includeheaders="True", MinPartitions="7")
    assert (options.fails_on_data_loss, options.include_headers, options.min_partitions) == (False, True, 7)


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"assign": '{"flights":[0,1]}'}, Assign((FIRST, SECOND))),
        ({"subscribe": " a, b ,"}, Subscribe(("a", "b"))),
        ({"subscribePattern": "fl.*"}, SubscribePattern("fl.*")),
    ],
)
def test_each_way_to_choose_topics(options: dict[str, str], selection: object) -> None:
    assert parse_source_options({**SERVERS, **options}, is_streaming=True).selection == selection


def test_of_several_ways_to_say_where_to_begin_the_most_precise_holds() -> None:
    offsets, times = '{"flights":{"0":5,"1":-2}}', '{"flights":{"0":1000}}'
    assert parse(startingOffsets=offsets).starting == GivenOffsets({FIRST: 5, SECOND: -2})
    by_time = parse(startingOffsets=offsets, startingOffsetsByTimestamp=times)
    assert by_time.starting == GivenTimestamps({FIRST: 1000})
    assert parse(startingOffsetsByTimestamp=times, startingTimestamp="17").starting == GivenTimestamp(17)
    assert parse(endingTimestamp="18").ending == GivenTimestamp(18)
    assert parse(endingOffsets='{"flights":{"0":-1}}').ending == GivenOffsets({FIRST: -1})
    assert parse(startingOffsetsByTimestampStrategy="Latest").begins_at_latest_without_match


REFUSED = [
    ({}, {}, "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign"),
    ({"subscribe": "a", "assign": "{}"}, {}, "Only one of the following options can be specified for Kafka source"),
    ({"assign": "a"}, {}, "No topicpartitions to assign as specified value for option 'assign' is 'a'"),
    ({"assign": '{"a":0}'}, {}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":0}'),
    ({"subscribe": " ,"}, {}, "No topics to subscribe to as specified value for option 'subscribe' is ' ,'"),
    ({"subscribePattern": " "}, {}, "Pattern to subscribe is empty as specified value for option 'subscribePattern'"),
    ({"subscribePattern": r"\p{Alpha}"}, {}, "which only Java's patterns have"),
    ({"subscribePattern": "("}, {}, "cannot be read"),
]


@pytest.mark.parametrize(("strategy", "options", "message"), REFUSED)
def test_topics_that_cannot_be_chosen_so(strategy: dict[str, str], options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_source_options({**SERVERS, **strategy, **options}, is_streaming=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "ending offset for a-0 can't be earliest for batch queries on Kafka"),
        ({"startingOffsets": "x"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got x'),
        ({"startingOffsets": '{"a":{"0":"1"}}'}, "Expected e.g."),
        ({"startingTimestamp": "noon"}, "Expected a single long value, got noon"),
        ({"startingOffsetsByTimestamp": "[]"}, "Expected e.g."),
        ({"startingOffsetsByTimestampStrategy": "first"}, "'error' or 'latest'"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"minPartitions": "few"}, "minPartitions must be a number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'true' or 'false'"),
        ({"maxTriggerDelay": "soon"}, "'soon' is no duration"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "The value of minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(8).",
        ),
        ({"kafka.auto.offset.reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported"),
        ({"kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported"),
        ({"kafka.value.deserializer": "x"}, "Kafka option 'value.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
        ({"kafka.fetch.min.bytes": "many"}, "Kafka option fetch.min.bytes=many"),
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"format": "avro", "valueSchema": "a int"}, "Option 'format' is json, not 'avro'"),
        ({"format": "json"}, "format=json and valueSchema belong together"),
        ({"valueSchema": "a int"}, "format=json and valueSchema belong together"),
        ({"maxBytesPerTrigger": "1"}, "Option 'maxbytespertrigger' is not supported"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(**options)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ValueError, match="ending offset not valid in streaming queries"):
        parse(is_streaming=True, endingOffsets="latest")
    with pytest.raises(ValueError, match="ending timestamp not valid in streaming queries"):
        parse(is_streaming=True, endingTimestamp="1")
    assert parse(is_streaming=True, startingOffsets="latest").starting == Latest()


def test_values_are_decoded_where_that_is_asked_for() -> None:
    given = {"Format": "JSON", "valueSchema": "a int "}
    assert parse(**given).decodes_json
    assert not parse().decodes_json
    assert parse_column_options({**given, "includeHeaders": "true"}) == (True, "a int")


def test_a_group_to_commit_to_has_a_name() -> None:
    assert parse(is_streaming=True, commitOffsetsToGroup="lag").commit_group == "lag"
    with pytest.raises(ValueError, match="commitOffsetsToGroup is the name of a group"):
        parse(is_streaming=True, commitOffsetsToGroup=" ")


def test_servers_have_to_be_named() -> None:
    with pytest.raises(ValueError, match=r"Option 'kafka.bootstrap.servers' must be specified"):
        parse_source_options({"subscribe": "a"}, is_streaming=False)


def test_what_belongs_to_others_is_left_alone() -> None:
    options = parse(path="/tmp", checkpointLocation="there", groupIdPrefix="mine")
    assert options.selection == Subscribe(("flights",))
