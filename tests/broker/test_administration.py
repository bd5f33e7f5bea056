"""Administration beyond what Kafka was asked: authorization, dynamic settings at work, several brokers, many topics."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from inspect import isawaitable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Endpoint
from tailrace.broker.dynamic_config import effective_config, follow_dynamic_config
from tailrace.broker.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    find_coordinator,
    incremental_alter_configs,
    list_config_resources,
    metadata,
)
from tailrace.broker.metadata_store import ALL_BROKERS, BrokerRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages import alter_configs as alter_messages
from tailrace.protocol.messages import create_partitions as partitions_messages
from tailrace.protocol.messages import describe_configs as describe_messages
from tailrace.protocol.messages import describe_topic_partitions as described_messages
from tailrace.protocol.messages import incremental_alter_configs as incremental_messages
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.schema import Message
from tailrace.protocol.topic_partition import TopicPartition
from tests.broker.parts import LISTENER, NODE_ID, Parts, make_parts, stop_parts

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    follow_dynamic_config(parts.broker)
    yield parts
    await stop_parts(parts)


async def ask(parts: Parts, module: ModuleType, body: Message, version: int) -> Any:
    """Call a handler as the dispatcher does."""
    try:
        result = parts.handle(module, body, version)
        return await result if isawaitable(result) else result
    except ApiError as error:
        return module.error_response(parts.request(body, version), error.code, error.message)


async def mention(parts: Parts, *names: str, version: int = 12, **options: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return await ask(parts, metadata, MetadataRequest(topics=topics, **options), version)


def codes(topics: Any) -> dict[str, ErrorCode]:
    return {topic.name: ErrorCode(topic.error_code) for topic in topics}


def incremental(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Message:
    configs = [
        incremental_messages.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental_messages.IncrementalAlterConfigsRequest(resources=[resource])


async def change(parts: Parts, kind: int, name: str, *changes: tuple[str, int, str | None]) -> ErrorCode:
    answer = await ask(parts, incremental_alter_configs, incremental(kind, name, *changes), 1)
    return ErrorCode(answer.responses[0].error_code)


async def test_a_topic_that_is_mentioned_is_there_in_the_same_answer(parts: Parts) -> None:
    answer = await mention(parts, "new")
    (topic,) = answer.topics
    assert (topic.error_code, len(topic.partitions), topic.partitions[0].leader_id) == (0, 1, NODE_ID)
    assert parts.partition("new").is_leader


async def test_mentioning_creates_nothing_where_that_is_turned_off(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data", texts={"auto.create.topics.enable": "false"})
    answer = await mention(parts, "new", "a b")
    assert codes(answer.topics) == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert parts.metadata.topics == {}
    await stop_parts(parts)


async def test_mentioning_needs_leave_to_create(parts: Parts) -> None:
    parts.authorizer.deny(AclOperation.CREATE, CLUSTER, CLUSTER_NAME)
    parts.authorizer.deny(AclOperation.CREATE, TOPIC, "new")
    answer = await mention(parts, "new", "other")
    assert codes(answer.topics) == {"new": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "other": ErrorCode.NONE}
    quiet = await mention(parts, "new", allow_auto_topic_creation=False)
    assert codes(quiet.topics) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_topic_one_may_not_describe_is_not_told(parts: Parts) -> None:
    topic = await parts.create_topic("secret")
    await parts.create_topic("open")
    parts.authorizer.deny(AclOperation.DESCRIBE, TOPIC, "secret")
    assert codes((await mention(parts, "secret")).topics) == {"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    everything = await ask(parts, metadata, MetadataRequest(topics=None), 12)
    assert codes(everything.topics) == {"open": ErrorCode.NONE}
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic.topic_id)])
    (told,) = (await ask(parts, metadata, by_id, 12)).topics
    assert (told.error_code, told.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    names = [described_messages.TopicRequest(name=name) for name in ("secret", "open")]
    pages = await ask(
        parts, describe_topic_partitions, described_messages.DescribeTopicPartitionsRequest(topics=names), 0
    )
    assert codes(pages.topics) == {"open": ErrorCode.NONE, "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


async def test_authorized_operations_are_those_the_authorizer_allows(parts: Parts) -> None:
    await parts.create_topic("t")
    parts.authorizer.deny(AclOperation.DELETE, TOPIC, "t")
    body = MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    answer = await ask(parts, metadata, body, 10)
    assert answer.topics[0].topic_authorized_operations == 3576 & ~(1 << AclOperation.DELETE)
    assert answer.cluster_authorized_operations == 8096
    parts.authorizer.deny(AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)
    assert (await ask(parts, metadata, body, 10)).cluster_authorized_operations == 0


@pytest.mark.parametrize("name", ["not-there", "no/name"])
async def test_a_client_learns_what_it_may_do_with_a_topic_that_is_not_there(parts: Parts, name: str) -> None:
    options = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    answer = await mention(parts, name, version=10, **options)
    assert answer.topics[0].topic_authorized_operations == 3576


async def test_each_topic_is_authorized_apart(parts: Parts) -> None:
    parts.authorizer.deny(AclOperation.CREATE, CLUSTER, CLUSTER_NAME)
    parts.authorizer.deny(AclOperation.CREATE, TOPIC, "no")
    parts.authorizer.deny(AclOperation.DESCRIBE_CONFIGS, TOPIC, "quiet")
    wanted = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("no", "yes", "quiet")]
    answer = await ask(parts, create_topics, CreateTopicsRequest(topics=wanted), 7)
    assert codes(answer.topics) == {
        "no": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "yes": ErrorCode.NONE,
        "quiet": ErrorCode.NONE,
    }
    quiet = answer.topics[2]
    assert (quiet.topic_config_error_code, quiet.num_partitions, quiet.configs) == (29, -1, [])
    assert parts.metadata.topic("no") is None

    parts.authorizer.deny(AclOperation.ALTER, TOPIC, "yes")
    grow = partitions_messages.CreatePartitionsRequest(
        topics=[partitions_messages.CreatePartitionsTopic(name="yes", count=3, assignments=None)]
    )
    assert codes((await ask(parts, create_partitions, grow, 3)).results) == {
        "yes": ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }

    parts.authorizer.deny(AclOperation.DELETE, TOPIC, "yes")
    names = [DeleteTopicState(name=name) for name in ("yes", "quiet")]
    answer = await ask(parts, delete_topics, DeleteTopicsRequest(topics=names), 6)
    assert codes(answer.responses) == {"yes": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "quiet": ErrorCode.NONE}
    assert list(parts.metadata.topics) == ["yes"]


@pytest.mark.parametrize(
    ("kind", "name", "guarded", "code"),
    [
        (2, "t", (TOPIC, "t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (4, "0", (CLUSTER, CLUSTER_NAME), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (8, "0", (CLUSTER, CLUSTER_NAME), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (16, "m", (CLUSTER, CLUSTER_NAME), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (32, "g", (ResourceType.GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_each_kind_of_resource_is_guarded(
    parts: Parts, kind: int, name: str, guarded: tuple[ResourceType, str], code: ErrorCode
) -> None:
    await parts.create_topic("t")
    parts.authorizer.deny(AclOperation.DESCRIBE_CONFIGS, *guarded)
    parts.authorizer.deny(AclOperation.ALTER_CONFIGS, *guarded)
    resource = describe_messages.DescribeConfigsResource(resource_type=kind, resource_name=name)
    described = await ask(parts, describe_configs, describe_messages.DescribeConfigsRequest(resources=[resource]), 4)
    assert described.results[0].error_code == code
    assert described.results[0].configs == []
    assert await change(parts, kind, name) is code
    replaced = alter_messages.AlterConfigsResource(resource_type=kind, resource_name=name)
    answer = await ask(parts, alter_configs, alter_messages.AlterConfigsRequest(resources=[replaced]), 2)
    assert answer.responses[0].error_code == code


async def test_the_cluster_is_guarded(parts: Parts) -> None:
    parts.authorizer.deny(AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)
    parts.authorizer.deny(AclOperation.DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME)
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.GROUP, "g")
    directories = await ask(parts, describe_log_dirs, DescribeLogDirsRequest(topics=None), 4)
    assert (directories.error_code, directories.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    listed = await ask(parts, list_config_resources, ListConfigResourcesRequest(), 1)
    assert listed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    found = await ask(parts, find_coordinator, FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    assert [coordinator.error_code for coordinator in found.coordinators] == [ErrorCode.GROUP_AUTHORIZATION_FAILED, 0]


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_can_be_turned_off(tmp_path: Path, version: int, code: ErrorCode) -> None:
    parts = await make_parts(tmp_path / "data", texts={"delete.topic.enable": "false"})
    await parts.create_topic("t")
    answer = await ask(parts, delete_topics, DeleteTopicsRequest(topic_names=["t"]), version)
    assert codes(answer.responses) == {"t": code}
    assert parts.metadata.topic("t") is not None
    await stop_parts(parts)


async def test_a_dynamic_setting_reaches_the_logs_that_run_and_outlives_a_restart(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data")
    follow_dynamic_config(parts.broker)
    await parts.create_topic("plain")
    await parts.create_topic("own", retention_ms="5000")
    plain, own = parts.partition("plain").log, parts.partition("own").log
    assert await change(parts, 4, "", ("log.retention.ms", 0, "70000")) is ErrorCode.NONE
    assert (plain.config.retention_ms, own.config.retention_ms) == (70000, 5000)
    assert await change(parts, 4, str(NODE_ID), ("log.retention.ms", 0, "60000")) is ErrorCode.NONE
    assert (plain.config.retention_ms, own.config.retention_ms) == (60000, 5000)
    assert await change(parts, 2, "own", ("retention.ms", 1, None)) is ErrorCode.NONE
    assert own.config.retention_ms == 60000
    await stop_parts(parts)

    parts = await make_parts(tmp_path / "data")
    config = effective_config(parts.broker.config, parts.metadata, NODE_ID)
    assert (config.log_retention_ms, config.node_id) == (60000, NODE_ID)
    assert config.dynamic_default == {"log.retention.ms": "70000"}
    await stop_parts(parts)


async def test_a_stored_setting_that_is_no_longer_valid_does_not_keep_the_broker_from_starting(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    stored = {"log.retention.ms": "soon", "log.segment.bytes": "2000000"}
    await parts.metadata.change_configs(ALL_BROKERS, expected={}, values=stored)
    config = effective_config(parts.broker.config, parts.metadata, NODE_ID)
    assert config.dynamic_default == {"log.segment.bytes": "2000000"}
    assert "log.retention.ms=soon" in caplog.text


async def test_a_logger_takes_a_level_and_gives_it_back(parts: Parts) -> None:
    logger = logging.getLogger("tailrace.broker.dynamic_config")
    assert await change(parts, 8, "0", (logger.name, 0, "DEBUG")) is ErrorCode.NONE
    assert logger.level == logging.DEBUG
    assert await change(parts, 8, "0", (logger.name, 0, "LOUD")) is ErrorCode.INVALID_CONFIG
    assert await change(parts, 8, "0", (logger.name, 1, None)) is ErrorCode.NONE
    assert logger.level == logging.NOTSET


async def test_a_leader_that_clients_cannot_reach_is_left_out(parts: Parts) -> None:
    await parts.register_broker(1)
    await parts.create_topic("t", replicas=(1, NODE_ID))

    async def told(version: int = 12) -> tuple[int, int, list[int], list[int]]:
        (partition,) = (await mention(parts, "t", version=version)).topics[0].partitions
        return partition.error_code, partition.leader_id, partition.replica_nodes, partition.offline_replicas

    assert await told() == (0, 1, [1, NODE_ID], [])
    await parts.metadata.register_broker(BrokerRegistration(1, (Endpoint("OTHER", "h", 1),)))
    assert await told() == (ErrorCode.LISTENER_NOT_FOUND, -1, [1, NODE_ID], [])
    assert await told(5) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1, NODE_ID], [])
    fenced = BrokerRegistration(1, (Endpoint(LISTENER, "h", 1),), is_fenced=True)
    await parts.metadata.register_broker(fenced)
    assert await told() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1, NODE_ID], [1])
    assert (await told(0))[2] == [NODE_ID], "v0 leaves out what is offline"
    brokers = (await mention(parts, "t")).brokers
    assert [broker.node_id for broker in brokers] == [NODE_ID]


async def test_a_log_that_is_offline_is_told(parts: Parts) -> None:
    await parts.create_topic("t")
    parts.partition("t").log.take_offline("a test")
    (partition,) = (await mention(parts, "t")).topics[0].partitions
    assert partition.offline_replicas == [NODE_ID]


async def test_log_directories_tell_sizes(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    (directory,) = (await ask(parts, describe_log_dirs, DescribeLogDirsRequest(topics=None), 4)).results
    assert directory.log_dir == str(parts.broker.log_manager.directories[0].path.absolute())
    assert directory.total_bytes >= directory.usable_bytes > 0
    assert [partition.partition_index for partition in directory.topics[0].partitions] == [0, 1]


@pytest.mark.slow
async def test_fifty_topics_of_twenty_partitions_are_one_durable_step(parts: Parts) -> None:
    heard: list[int] = []
    parts.metadata.subscribe(lambda delta: heard.append(len(delta.created_topics)))
    wanted = [CreatableTopic(name=f"t{number}", num_partitions=20, replication_factor=1) for number in range(50)]
    answer = await ask(parts, create_topics, CreateTopicsRequest(topics=wanted), 7)
    assert set(codes(answer.topics).values()) == {ErrorCode.NONE}
    assert heard == [50]
    assert parts.broker.log_manager.get(TopicPartition("t49", 19)) is not None
