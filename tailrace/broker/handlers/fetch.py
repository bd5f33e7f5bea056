"""Fetch: v4-v18, for consumers and for followers.

v5: log start offset … v7: sessions (KIP-227) … v9: leader epochs (KIP-320) … v11: rack (KIP-392; one replica: nobody
is sent elsewhere) … v12: flexible, last fetched epoch and diverging epoch (KIP-595) … v13: topics by id (KIP-516) …
v15: replica state … v16: the current leader beside errors (KIP-951) … v17: directory ids … v18: the follower's high
watermark.

A fetch that finds less than `min_bytes` waits, at most `max_wait_ms`. Errors are answered for each partition, wrong
sessions as a whole. The records of the answer are views of the mapped segments.
"""

from __future__ import annotations

from functools import lru_cache, partial

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.current_leader import current_leader
from tailrace.broker.delayed_fetch import DelayedFetch
from tailrace.broker.fetch_session import FetchContext, Found, SessionPartition
from tailrace.broker.partition_fetch import (
    CONSUMER_REPLICA_ID,
    HIGH_WATERMARK,
    LOG_END,
    NO_RECORDS,
    TXN_COMMITTED,
    FetchParams,
)
from tailrace.broker.request import Answer, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

STORAGE_ERROR_VERSION_FIRST = 6
SESSION_VERSION_FIRST = 7
RACK_VERSION_FIRST = 11
TOPIC_ID_VERSION_FIRST = 13
REPLICA_STATE_VERSION_FIRST = 15
LEADER_VERSION_FIRST = 16
READ_COMMITTED = 1
READ = AclOperation.READ
TOPIC = ResourceType.TOPIC
"""Each by a name of its own: finding a member in its Enum takes 50 ns."""


def handle(broker: Broker, request: Request[FetchRequest]) -> Result:
    """Answer with records, or wait for them."""
    body = request.body
    version = request.api_version
    context = broker.fetch_sessions.open_context(body, version, broker.topic_name)
    params = _params(broker, body, version)
    asked, failed = _sort(broker, request, context, is_from_follower=params.replica_id >= 0)
    if not asked:
        return _respond(broker, request, context, failed, [])
    manager = broker.replica_manager
    ends = manager.partitions_at_their_end(params, asked) if params.max_wait_ms > 0 < params.min_bytes else None
    for entry in asked:
        manager.fetched_metrics(entry).total_fetch_requests += 1
    if ends is None:
        found, bytes_read, is_urgent = manager.read(params, asked, update_follower=True)
        if is_urgent or params.max_wait_ms <= 0 or bytes_read >= params.min_bytes:
            return _respond(broker, request, context, failed, found)
    operation = DelayedFetch(params, asked, manager, partial(_respond, broker, request, context, failed))
    if ends is None:
        keys = [manager.fetched_partition(entry) for entry in asked]
        manager.fetch_purgatory.try_complete_else_watch(operation, keys)
    else:
        manager.fetch_purgatory.watch(operation, ends)
    return operation.parked


def error_response(request: Request[FetchRequest], code: ErrorCode, message: str | None) -> FetchResponse:
    """Answer the request as a whole; before v13 every partition says so too, for clients that look only there."""
    del message  # the response has no room for one
    body = request.body
    topics = [] if request.api_version >= TOPIC_ID_VERSION_FIRST else body.topics
    return FetchResponse(
        error_code=code,
        session_id=body.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic, partitions=[_refused(asked.partition, code) for asked in topic.partitions]
            )
            for topic in topics
        ],
    )


def _params(broker: Broker, body: FetchRequest, version: int) -> FetchParams:
    if version >= REPLICA_STATE_VERSION_FIRST:
        replica_id = body.replica_state.replica_id
        replica_epoch = body.replica_state.replica_epoch
    else:
        replica_id = body.replica_id
        replica_epoch = -1
    limits = (body.max_wait_ms, body.min_bytes, body.max_bytes, broker.config.fetch_max_bytes)
    # Consumers that may name a rack may read from a follower (KIP-392), and debugging clients anyway.
    leader_only = replica_id >= 0 or (replica_id == CONSUMER_REPLICA_ID and version < RACK_VERSION_FIRST)
    return _params_of(replica_id, replica_epoch, body.isolation_level, leader_only, *limits)


@lru_cache(maxsize=256)
def _params_of(
    replica_id: int,
    replica_epoch: int,
    isolation_level: int,
    leader_only: bool,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    max_bytes_of_broker: int,
) -> FetchParams:
    """Make the parameters, which nobody changes: a client asks the same again and again, and others ask it too."""
    if replica_id != CONSUMER_REPLICA_ID:
        isolation = LOG_END  # a follower, or a debugging client (-2)
    elif isolation_level == READ_COMMITTED:
        isolation = TXN_COMMITTED
    else:
        isolation = HIGH_WATERMARK
    max_bytes = min(max_bytes, max_bytes_of_broker)
    return FetchParams(
        replica_id, replica_epoch, max_wait_ms, min(min_bytes, max_bytes), max_bytes, isolation, leader_only
    )


def _sort(
    broker: Broker, request: Request[FetchRequest], context: FetchContext, *, is_from_follower: bool
) -> tuple[list[SessionPartition], list[Found]]:
    """Tell partitions that can be read from those that are answered with an error."""
    asked: list[SessionPartition] = []
    failed: list[Found] = []
    authorizer, connection, partitions = broker.authorizer, request.connection, broker.replica_manager.partitions
    if is_from_follower:
        may_replicate = authorizer.authorize(
            connection, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        )
    else:
        may_replicate = False
    for entry in context.partitions:
        topic = entry.topic
        if is_from_follower and not may_replicate:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not (is_from_follower or authorizer.authorize(connection, READ, TOPIC, topic)):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif (topic, entry.partition) not in partitions and broker.metadata.partition(topic, entry.partition) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            asked.append(entry)
            continue
        failed.append((entry, _refused(entry.partition, code)))
    return asked, failed


def _refused(partition_index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition_index,
        error_code=code,
        high_watermark=-1,
        records=NO_RECORDS,
    )


def _respond(
    broker: Broker, request: Request[FetchRequest], context: FetchContext, failed: list[Found], found: list[Found]
) -> Answer:
    """Make the answer; the session leaves out what is no news."""
    endpoints: list[NodeEndpoint] = []
    size_bytes = 0
    for entry, data in found:
        size = len(data.records or NO_RECORDS)
        if size:
            broker.replica_manager.fetched_metrics(entry).bytes_out += size
            size_bytes += size
        elif data.error_code:
            _explain(broker, request, entry, data, endpoints)
    for _, data in failed:
        broker.metrics.record_error("Fetch", ErrorCode(data.error_code))
    response = context.response([*found, *failed] if failed else found)
    if endpoints:
        response.node_endpoints = endpoints
    response.throttle_time_ms = broker.quotas.record_fetch(request.connection, request.client_id, size_bytes)
    return response


def _explain(
    broker: Broker,
    request: Request[FetchRequest],
    entry: SessionPartition,
    data: PartitionData,
    endpoints: list[NodeEndpoint],
) -> None:
    """Put an error into the words of the request's version, and say where the leader is (KIP-951)."""
    code = ErrorCode(data.error_code)
    broker.metrics.record_error("Fetch", code)
    if code is ErrorCode.KAFKA_STORAGE_ERROR and request.api_version < STORAGE_ERROR_VERSION_FIRST:
        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if request.api_version < LEADER_VERSION_FIRST or code not in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
    ):
        return
    leader = current_leader(broker, entry.topic or "", entry.partition, request.connection.listener_name)
    data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
    if leader.endpoint is not None and all(endpoint.node_id != leader.leader_id for endpoint in endpoints):
        endpoints.append(
            NodeEndpoint(
                node_id=leader.leader_id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack
            )
        )
