"""Metadata: v0-v13, where the brokers and the partitions are.

v0: an empty list of topics asks for all. v1: null asks for all; controller, racks, internal topics. v2: cluster id. v4:
creation may be declined. v5: offline replicas. v7: leader epochs (KIP-320). v8: authorized operations (KIP-430), v11
leaves those of the cluster to DescribeCluster. v10: topic ids in the answer; v12: in the request too (KIP-516). v13: a
top-level error.

A topic that does not exist and may be created is created before the answer, where Kafka answers
UNKNOWN_TOPIC_OR_PARTITION and creates it meanwhile: a client takes the first answer for the second and waits less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tailrace.broker.authorizer import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_NAME,
    AclOperation,
    ResourceType,
    authorized_operations,
)
from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import NewTopic, TopicRegistration
from tailrace.broker.partition_state import partition_states
from tailrace.broker.request import ImmediateResult, Request, Result
from tailrace.broker.topic_administration import automatic_topic, create_topics
from tailrace.broker.topic_names import is_internal, is_valid_topic_name
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.uuid import ZERO_UUID

TOPIC_ID_REQUEST_VERSION_FIRST = 12
LISTENER_NOT_FOUND_VERSION_FIRST = 6


def handle(broker: Broker, request: Request[MetadataRequest]) -> Result:
    """Describe what was asked for; create the topics that are missing where that is wanted and allowed."""
    wanted = request.body.topics
    if wanted is None or (request.api_version == 0 and not wanted):
        visible = [topic for topic in broker.metadata.topics.values() if _may_describe(broker, request, topic.name)]
        return _response(broker, request, _described(broker, request, visible))
    _check_request(request)
    if any(topic.topic_id != ZERO_UUID for topic in wanted):
        ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
        return _response(broker, request, _topics_by_id(broker, request, ids))
    names = dict.fromkeys(topic.name or "" for topic in wanted)
    missing = [name for name in names if broker.metadata.topic(name) is None and _may_create(broker, request, name)]
    if missing:
        return _create_and_answer(broker, request, names, missing)
    return _response(broker, request, _topics_by_name(broker, request, names))


def error_response(request: Request[MetadataRequest], code: ErrorCode, message: str | None) -> MetadataResponse:
    """Put the error on every topic that was asked for."""
    topics = [_failed(topic.name or "", code, topic_id=topic.topic_id) for topic in request.body.topics or ()]
    return MetadataResponse(topics=topics, error_code=code)


async def _create_and_answer(
    broker: Broker, request: Request[MetadataRequest], names: Collection[str], missing: Sequence[str]
) -> ImmediateResult:
    outcomes = await create_topics(broker, [automatic_topic(broker, name) for name in missing])
    refusals: dict[str, ErrorCode] = {
        # A name that collides, say, stays unknown: Kafka tells the client no more than that.
        name: outcome.code
        for name, outcome in zip(missing, outcomes, strict=True)
        if isinstance(outcome, ApiError) and outcome.code is ErrorCode.INVALID_REPLICATION_FACTOR
    }
    created = [outcome for outcome in outcomes if isinstance(outcome, NewTopic)]
    partitions = sum(len(topic.registration.partitions) for topic in created)
    broker.quotas.record_controller_mutations(request.connection, request.client_id, partitions)
    return _response(broker, request, _topics_by_name(broker, request, names, refusals))


def _check_request(request: Request[MetadataRequest]) -> None:
    topics = request.body.topics or ()
    if request.api_version < TOPIC_ID_REQUEST_VERSION_FIRST:
        if any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics):
            raise ApiError(ErrorCode.INVALID_REQUEST, "topics are asked for by id from version 12 on")
    elif any(topic.name is None and topic.topic_id == ZERO_UUID for topic in topics):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a topic is asked for by name or by id")


def _response(
    broker: Broker, request: Request[MetadataRequest], topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    cluster_operations = AUTHORIZED_OPERATIONS_OMITTED
    if request.body.include_cluster_authorized_operations:
        cluster_operations = 0
        if broker.authorizer.authorize(request.connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            cluster_operations = authorized_operations(
                broker.authorizer, request.connection, ResourceType.CLUSTER, CLUSTER_NAME
            )
    brokers: list[MetadataResponseBroker] = []
    for registration in broker.metadata.brokers.values():
        endpoint = registration.endpoint_for(request.connection.listener_name)
        if endpoint is not None and not registration.is_fenced:
            brokers.append(
                MetadataResponseBroker(
                    node_id=registration.node_id, host=endpoint.host, port=endpoint.port, rack=registration.rack
                )
            )
    return MetadataResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations,
    )


def _topics_by_name(
    broker: Broker,
    request: Request[MetadataRequest],
    names: Iterable[str],
    refusals: dict[str, ErrorCode] | None = None,
) -> list[MetadataResponseTopic]:
    described: list[MetadataResponseTopic] = []
    for name in names:
        topic = broker.metadata.topic(name)
        if not _may_describe(broker, request, name):
            described.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is not None:
            described.append(_describe(broker, request, topic))
        elif not is_valid_topic_name(name):
            described.append(_missing(broker, request, name, ErrorCode.INVALID_TOPIC_EXCEPTION))
        elif _wants_creation(broker, request) and not _is_allowed_to_create(broker, request, name):
            described.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            code = (refusals or {}).get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            described.append(_missing(broker, request, name, code))
    return described


def _topics_by_id(
    broker: Broker, request: Request[MetadataRequest], topic_ids: Iterable[bytes]
) -> list[MetadataResponseTopic]:
    described: list[MetadataResponseTopic] = []
    for topic_id in topic_ids:
        topic = broker.metadata.topic_by_id(topic_id)
        if topic is None:
            described.append(_failed(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id))
        elif not _may_describe(broker, request, topic.name):
            described.append(_failed(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id=topic_id))
        else:
            described.append(_describe(broker, request, topic))
    return described


def _described(
    broker: Broker, request: Request[MetadataRequest], topics: Iterable[TopicRegistration]
) -> list[MetadataResponseTopic]:
    return [_describe(broker, request, topic) for topic in topics]


def _describe(broker: Broker, request: Request[MetadataRequest], topic: TopicRegistration) -> MetadataResponseTopic:
    partitions: list[MetadataResponsePartition] = []
    for state in partition_states(broker, topic, request.connection.listener_name):
        error = state.error
        if error is ErrorCode.LISTENER_NOT_FOUND and request.api_version < LISTENER_NOT_FOUND_VERSION_FIRST:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        replicas, isr = state.replicas, state.isr
        if request.api_version == 0 and state.offline_replicas:
            # The first version had no list of offline replicas: it leaves them out and says so by the error.
            replicas = [node for node in replicas if node not in state.offline_replicas]
            isr = [node for node in isr if node not in state.offline_replicas]
            error = error or ErrorCode.REPLICA_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                error_code=error,
                partition_index=state.number,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=isr,
                offline_replicas=state.offline_replicas,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=_operations(broker, request, topic.name),
    )


def _missing(broker: Broker, request: Request[MetadataRequest], name: str, code: ErrorCode) -> MetadataResponseTopic:
    """Tell of a topic that is not there; what the client might do with it is told all the same."""
    topic = _failed(name, code)
    topic.topic_authorized_operations = _operations(broker, request, name)
    return topic


def _operations(broker: Broker, request: Request[MetadataRequest], name: str) -> int:
    if not request.body.include_topic_authorized_operations:
        return AUTHORIZED_OPERATIONS_OMITTED
    return authorized_operations(broker.authorizer, request.connection, ResourceType.TOPIC, name)


def _failed(name: str | None, code: ErrorCode, *, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=name is not None and is_internal(name)
    )


def _may_describe(broker: Broker, request: Request[MetadataRequest], name: str) -> bool:
    return broker.authorizer.authorize(request.connection, AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _may_create(broker: Broker, request: Request[MetadataRequest], name: str) -> bool:
    return (
        _wants_creation(broker, request)
        and is_valid_topic_name(name)
        and _may_describe(broker, request, name)
        and _is_allowed_to_create(broker, request, name)
    )


def _wants_creation(broker: Broker, request: Request[MetadataRequest]) -> bool:
    return request.body.allow_auto_topic_creation and broker.config.auto_create_topics_enable


def _is_allowed_to_create(broker: Broker, request: Request[MetadataRequest], name: str) -> bool:
    authorize = broker.authorizer.authorize
    if authorize(request.connection, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        return True
    return authorize(request.connection, AclOperation.CREATE, ResourceType.TOPIC, name)
