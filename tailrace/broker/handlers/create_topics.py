"""CreateTopics: v2-v7.

v3: throttled before it is answered. v4: -1 asks for the default number of partitions or replicas (KIP-464); it is taken
in every version, as Kafka does. v5: the answer has the partitions, replicas and settings that the topic got (KIP-525).
v6: quota of mutations (KIP-599). v7: topic id.
"""

from __future__ import annotations

from collections import Counter

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import NewTopic
from tailrace.broker.request import Request
from tailrace.broker.topic_administration import TopicWish, create_topics
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.settings.described_config import describe_topic

CONFIGS_VERSION_FIRST = 5


async def handle(broker: Broker, request: Request[CreateTopicsRequest]) -> CreateTopicsResponse:
    """Create what can be created, all in one step; say for each topic what became of it."""
    counts = Counter(topic.name for topic in request.body.topics)
    may_create_any = broker.authorizer.authorize(
        request.connection, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
    )
    results: dict[str, CreatableTopicResult] = {}
    wishes: list[TopicWish] = []
    for topic in request.body.topics:
        if topic.name in results:
            continue
        results[topic.name] = CreatableTopicResult(name=topic.name)
        if counts[topic.name] > 1:
            results[topic.name] = _failed(topic.name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif not (may_create_any or _is_authorized(broker, request, AclOperation.CREATE, topic.name)):
            results[topic.name] = _failed(topic.name, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            wishes.append(_wish(topic))
    outcomes = await create_topics(broker, wishes, validate_only=request.body.validate_only)
    for wish, outcome in zip(wishes, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            results[wish.name] = _failed(wish.name, outcome)
        else:
            results[wish.name] = _created(broker, request, outcome)
    mutations = sum(len(topic.registration.partitions) for topic in outcomes if isinstance(topic, NewTopic))
    throttle = broker.quotas.record_controller_mutations(request.connection, request.client_id, mutations)
    return CreateTopicsResponse(throttle_time_ms=throttle, topics=list(results.values()))


def error_response(request: Request[CreateTopicsRequest], code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    """Put the error on every topic."""
    failure = ApiError(code, message or "")
    return CreateTopicsResponse(topics=[_failed(topic.name, failure) for topic in request.body.topics])


def _wish(topic: CreatableTopic) -> TopicWish:
    return TopicWish(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _created(broker: Broker, request: Request[CreateTopicsRequest], topic: NewTopic) -> CreatableTopicResult:
    registration = topic.registration
    result = CreatableTopicResult(name=registration.name, topic_id=registration.topic_id, error_message=None)
    if request.api_version < CONFIGS_VERSION_FIRST:
        return result
    if not _is_authorized(broker, request, AclOperation.DESCRIBE_CONFIGS, registration.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    result.num_partitions = len(registration.partitions)
    result.replication_factor = len(registration.partitions[0].replicas)
    described = describe_topic(broker.config, topic.configs)
    result.configs = [
        CreatableTopicConfigs(
            name=config.name,
            value=config.value,
            read_only=config.read_only,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
        )
        for config in sorted(described, key=lambda config: config.name)
    ]
    return result


def _failed(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _is_authorized(broker: Broker, request: Request[CreateTopicsRequest], operation: AclOperation, name: str) -> bool:
    return broker.authorizer.authorize(request.connection, operation, ResourceType.TOPIC, name)
