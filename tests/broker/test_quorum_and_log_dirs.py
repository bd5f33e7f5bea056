"""What an administrator is told of the quorum, of replicas that shall lie elsewhere, and of brokers that shall go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.handlers import alter_replica_log_dirs, describe_quorum, unregister_broker
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tailrace.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionDataRequest, TopicDataRequest
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.parts import LISTENER, NODE_ID, Parts, make_parts, stop_parts

QUORUM = DescribeQuorumRequest(
    topics=[TopicDataRequest(topic_name="__cluster_metadata", partitions=[PartitionDataRequest(partition_index=0)])]
)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data", texts={"log.dirs": f"{tmp_path / 'data'},{tmp_path / 'other'}"})
    await parts.create_topic("wanted")
    yield parts
    await stop_parts(parts)


def quorum(parts: Parts, version: int = 2) -> Any:
    return parts.handle(describe_quorum, QUORUM, version)


async def test_the_one_broker_is_the_quorum_and_counts_its_changes(parts: Parts) -> None:
    before = quorum(parts).topics[0].partitions[0]
    await parts.create_topic("another")
    answer = quorum(parts)
    after = answer.topics[0].partitions[0]
    assert (after.leader_id, [voter.replica_id for voter in after.current_voters]) == (NODE_ID, [NODE_ID])
    assert before.high_watermark > 0
    assert after.high_watermark == before.high_watermark + 1 == after.current_voters[0].log_end_offset
    assert [(node.node_id, [listener.name for listener in node.listeners]) for node in answer.nodes] == [
        (NODE_ID, [LISTENER])
    ]
    assert not quorum(parts, version=1).nodes


def alter(parts: Parts, path: str, numbers: list[int]) -> list[int]:
    wish = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="wanted", partitions=numbers)])
    answer = parts.handle(alter_replica_log_dirs, AlterReplicaLogDirsRequest(dirs=[wish]), 2)
    return [partition.error_code for topic in answer.results for partition in topic.partitions]


async def test_a_replica_stays_in_its_directory(parts: Parts) -> None:
    log = parts.partition("wanted").log
    here, other = (directory.path for directory in parts.broker.log_manager.directories)
    if log.directory.parent != here:
        here, other = other, here
    assert alter(parts, str(here), [0, 7]) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(parts, str(other), [0]) == [ErrorCode.OPERATION_NOT_ATTEMPTED]
    assert alter(parts, str(other / "nowhere"), [0]) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert log.directory.parent == here


async def test_a_directory_that_failed_takes_nothing(parts: Parts) -> None:
    path = parts.partition("wanted").log.directory.parent
    directory = next(known for known in parts.broker.log_manager.directories if known.path == path)
    directory.failure = "the disk is gone"
    assert alter(parts, str(path), [0]) == [ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("operation", [AclOperation.ALTER, AclOperation.DESCRIBE])
async def test_both_need_the_cluster(parts: Parts, operation: AclOperation) -> None:
    parts.authorizer.deny(operation, ResourceType.CLUSTER, CLUSTER_NAME)
    with pytest.raises(ApiError) as error:
        alter(parts, "/", [0]) if operation is AclOperation.ALTER else quorum(parts)
    assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("broker_id", "code"), [(7, ErrorCode.BROKER_ID_NOT_REGISTERED), (NODE_ID, ErrorCode.INVALID_REQUEST)]
)
async def test_the_broker_that_serves_is_not_unregistered(parts: Parts, broker_id: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as error:
        parts.handle(unregister_broker, UnregisterBrokerRequest(broker_id=broker_id), 0)
    assert error.value.code is code
    assert list(parts.metadata.brokers) == [NODE_ID]
