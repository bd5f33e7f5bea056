"""DescribeQuorum: v0-v2 (KIP-595). v1: when replicas fetched (KIP-836). v2: messages, voters' addresses (KIP-853).

The cluster's metadata has one voter, the controller, which is reached where the asking client came in. The offsets of
its log are the count of changes; there was never an election after the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResponse,
    ReplicaState,
    TopicDataRequest,
    TopicDataResponse,
)

METADATA_TOPIC = "__cluster_metadata"
LEADER_EPOCH = 1


def handle(broker: Broker, request: Request[DescribeQuorumRequest]) -> Answer:
    """Say who leads the quorum, who votes, and how far they are."""
    if not broker.authorizer.authorize(request.connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    broker.quotas.record_request(request.connection, request.client_id)
    topics = request.body.topics
    if not _asks_for_metadata_alone(topics):
        return _response(topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The quorum keeps no such partition.")
    partition = _describe(broker)
    return DescribeQuorumResponse(
        topics=[TopicDataResponse(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=_nodes(broker, request) if request.api_version >= 2 else [],
    )


def error_response(request: Request[DescribeQuorumRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return DescribeQuorumResponse(error_code=code, error_message=message)


def _asks_for_metadata_alone(topics: Sequence[TopicDataRequest]) -> bool:
    return [(topic.topic_name, [asked.partition_index for asked in topic.partitions]) for topic in topics] == [
        (METADATA_TOPIC, [0])
    ]


def _describe(broker: Broker) -> PartitionDataResponse:
    end_offset = broker.metadata.revision
    now_ms = broker.clock.time_ms()
    leader = ReplicaState(
        replica_id=broker.metadata.controller_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionDataResponse(
        partition_index=0,
        leader_id=leader.replica_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=end_offset,
        current_voters=[leader],
    )


def _nodes(broker: Broker, request: Request[DescribeQuorumRequest]) -> list[Node]:
    controller_id = broker.metadata.controller_id
    registration = broker.metadata.brokers.get(controller_id)
    endpoint = None if registration is None else registration.endpoint_for(request.connection.listener_name)
    if endpoint is None:
        return []
    listener = Listener(name=endpoint.listener_name, host=endpoint.host, port=endpoint.port)
    return [Node(node_id=controller_id, listeners=[listener])]


def _response(topics: Sequence[TopicDataRequest], code: ErrorCode, message: str) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            TopicDataResponse(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionDataResponse(partition_index=asked.partition_index, error_code=code, error_message=message)
                    for asked in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
