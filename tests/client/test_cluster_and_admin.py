"""Whom the client asks, how often, and what it makes of the answers."""

from __future__ import annotations

import pytest

from tailrace.client.address import Address, parse_addresses
from tailrace.client.admin import Admin, AlterOperation, ConfigChange, ConfigSource, NewTopic, ResourceType
from tailrace.client.errors import NoBrokerAvailable, OperationTimedOut
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tailrace.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster


def topic_results(*codes: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code) for code in codes])


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_addresses_are_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:0", "a:65536", ":9092", "[::1", "[::1]x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_addresses(text)


def test_an_ipv6_address_prints_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"


async def test_metadata_is_asked_for_once_until_it_is_old_or_wrong() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    cluster = make_cluster(scripted, clock)
    key = TopicPartition("flights", 1)
    assert cluster.known_leader(key) is None
    assert (await cluster.leader_of(key)).node_id == 0
    assert cluster.known_leader(key) is not None
    await cluster.leader_of(key)
    assert len(scripted.requests_of(MetadataRequest)) == 1
    await clock.advance_async(300_001)
    await cluster.leader_of(key)
    cluster.expire_metadata()
    await cluster.leader_of(key)
    assert len(scripted.requests_of(MetadataRequest)) == 3


async def test_what_is_not_there_is_an_error_of_its_own() -> None:
    scripted = ScriptedCluster()
    scripted.leaders["flights", 0] = -1
    cluster = make_cluster(scripted, VirtualClock())
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION: topic nope"):
        await cluster.topic("nope")
    with pytest.raises(ApiError, match="no partition flights-7"):
        await cluster.leader_of(TopicPartition("flights", 7))
    with pytest.raises(ApiError, match="LEADER_NOT_AVAILABLE"):
        await cluster.leader_of(TopicPartition("flights", 0))


async def test_another_broker_is_asked_when_the_first_is_gone() -> None:
    scripted = ScriptedCluster(brokers=3)
    clock = VirtualClock()
    cluster = make_cluster(scripted, clock)
    await cluster.metadata()
    scripted.unreachable.add(scripted.addresses[0])
    scripted.streams[0].lose(None)
    connection = await cluster.any_connection()
    assert connection.address == scripted.addresses[1]
    scripted.unreachable.update(scripted.addresses)
    connection.close()
    connection.close()
    with pytest.raises(NoBrokerAvailable, match=r"broker1:9092: connection refused; .*broker2:9092.*; .*broker0:9092"):
        await drive(clock, cluster.any_connection())


async def test_a_connection_is_opened_once_for_all_who_ask() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    async with make_cluster(scripted, clock) as cluster:
        first, second = cluster.any_connection(), cluster.any_connection()
        assert await drive(clock, first) is await drive(clock, second)
        assert len(scripted.streams) == 1
    assert scripted.streams[0].is_closed


async def test_retriable_errors_are_tried_again_with_backoff_and_others_not() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    answers = [topic_results(ErrorCode.NOT_CONTROLLER), topic_results(ErrorCode.NONE)]
    scripted.scripts[ApiKey.CREATE_TOPICS] = lambda request: answers.pop(0)
    admin = Admin(make_cluster(scripted, clock))
    assert await drive(clock, admin.create_topics([NewTopic("t", 3, configs={"a": "b"})])) == {"t": None}
    assert clock.monotonic() >= 0.08
    request = scripted.requests_of(CreateTopicsRequest)[0]
    assert (request.topics[0].num_partitions, request.topics[0].configs[0].value) == (3, "b")
    scripted.scripts[ApiKey.CREATE_TOPICS] = lambda request: topic_results(ErrorCode.TOPIC_ALREADY_EXISTS)
    refused = (await admin.create_topics([NewTopic("t")]))["t"]
    assert refused is not None
    assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_an_operation_is_given_up_when_its_time_is_over() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    scripted.scripts[ApiKey.CREATE_TOPICS] = lambda request: topic_results(ErrorCode.NOT_CONTROLLER)
    admin = Admin(make_cluster(scripted, clock, default_api_timeout_ms=5_000))
    with pytest.raises(OperationTimedOut, match="creating topics: gave up after 5000 ms: NOT_CONTROLLER"):
        await drive(clock, admin.create_topics([NewTopic("t")]))
    assert 4 < clock.monotonic() <= 5.1
    assert len(scripted.requests_of(CreateTopicsRequest)) > 4


@pytest.mark.parametrize("version", [5, 6])
async def test_topics_are_deleted_as_the_version_names_them(version: int) -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.DELETE_TOPICS] = (1, version)
    answer = DeleteTopicsResponse(
        responses=[DeletableTopicResult(name="t"), DeletableTopicResult(name="u", error_code=3)]
    )
    scripted.scripts[ApiKey.DELETE_TOPICS] = lambda request: answer
    results = await Admin(make_cluster(scripted, VirtualClock())).delete_topics(["t", "u"])
    request = scripted.requests_of(DeleteTopicsRequest)[0]
    assert (request.topic_names or [topic.name for topic in request.topics]) == ["t", "u"]
    assert results["t"] is None
    assert results["u"] is not None


async def test_configurations_are_described_and_altered() -> None:
    scripted = ScriptedCluster(brokers=2)
    entries = [
        DescribeConfigsResourceResult(name="k", value="v", config_source=1),
        DescribeConfigsResourceResult(name="d", config_source=5),
    ]
    scripted.scripts[ApiKey.DESCRIBE_CONFIGS] = lambda request: DescribeConfigsResponse(
        results=[DescribeConfigsResult(resource_name=request.resources[0].resource_name, configs=entries)]
    )
    scripted.scripts[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda request: IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(error_code=40, error_message="not so")]
    )
    admin = Admin(make_cluster(scripted, VirtualClock()))
    described = (await admin.describe_configs(ResourceType.BROKER, ["1"]))["1"]
    assert not isinstance(described, ApiError)
    assert [(entry.name, entry.source, entry.is_default) for entry in described] == [
        ("k", ConfigSource.DYNAMIC_TOPIC_CONFIG, False),
        ("d", ConfigSource.DEFAULT_CONFIG, True),
    ]
    assert scripted.requests[-1][0] == 1, "a broker's settings are asked of that broker"
    with pytest.raises(ApiError, match="INVALID_CONFIG: not so"):
        await admin.alter_configs(ResourceType.TOPIC, "t", [ConfigChange("k", "v", AlterOperation.APPEND)])
    assert scripted.requests_of(IncrementalAlterConfigsRequest)[0].resources[0].configs[0].config_operation == 2


async def test_records_are_deleted_at_the_leader() -> None:
    scripted = ScriptedCluster(brokers=2)
    result = DeleteRecordsPartitionResult(partition_index=1, low_watermark=50)
    scripted.scripts[ApiKey.DELETE_RECORDS] = lambda request: DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name="flights", partitions=[result])]
    )
    admin = Admin(make_cluster(scripted, VirtualClock()))
    assert await admin.delete_records(TopicPartition("flights", 1), 50) == 50
    assert scripted.requests[-1][0] == 1
