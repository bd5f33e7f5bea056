"""OffsetCommit: v2-v9 (v10, with topic ids, is unstable in Kafka 4.1 and not advertised).

v2-v4: a retention time of the commit's own. v5: only the broker's (KIP-211). v6: leader epochs (KIP-320). v7: static
members (KIP-345). v8: flexible. v9: members of consumer groups, by their epoch (KIP-848).

The answer leaves when the offsets are committed in the offsets topic. One partition's fault is no other's.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.groups.offset_requests import Committer, OffsetToCommit
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(broker: Broker, request: Request[OffsetCommitRequest]) -> Result:
    """Commit the offsets of the partitions that exist and may be read."""
    body = request.body
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    to_commit: list[OffsetToCommit] = []
    topics = [_examine(broker, request, topic, to_commit) for topic in body.topics]
    response = OffsetCommitResponse(throttle_time_ms=throttle, topics=topics)
    if not to_commit:
        return response
    parked = Parked()

    def on_done(code: ErrorCode) -> None:
        if code:
            _refuse(broker, to_commit, code)
        parked.complete(response)

    committer = Committer(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        generation=body.generation_id_or_member_epoch,
    )
    try:
        broker.groups.commit_offsets(
            committer,
            to_commit,
            version=request.api_version,
            retention_time_ms=body.retention_time_ms,
            on_done=on_done,
        )
    except ApiError as error:
        on_done(error.code)
    return parked.result()


def error_response(request: Request[OffsetCommitRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike."""
    del message  # the response has no room for one
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _examine(
    broker: Broker,
    request: Request[OffsetCommitRequest],
    topic: OffsetCommitRequestTopic,
    to_commit: list[OffsetToCommit],
) -> OffsetCommitResponseTopic:
    """Make the answer about one topic, and note which of its offsets are to be committed."""
    name = topic.name
    known = broker.metadata.topic(name)
    partition_count = 0 if known is None else len(known.partitions)
    fault = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.TOPIC, name):
        fault, partition_count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
    answers: list[OffsetCommitResponsePartition] = []
    for asked in topic.partitions:
        index = asked.partition_index
        answer = OffsetCommitResponsePartition(partition_index=index)
        answers.append(answer)
        if not 0 <= index < partition_count:
            answer.error_code = fault
            continue
        to_commit.append(
            OffsetToCommit(
                name,
                topic.topic_id,  # Kafka writes it down where the client gave it, that is from v10 on
                index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata,
                answer,
            )
        )
    return OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=answers)


def _refuse(broker: Broker, offsets: list[OffsetToCommit], code: ErrorCode) -> None:
    broker.metrics.record_error("OffsetCommit", code)
    for offset in offsets:
        offset.answer.error_code = code
