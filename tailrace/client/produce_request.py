"""Produce requests made of batches, and answers taken apart. Pure.

Versions up to 12 name topics, later ones have their ids; an answer is found again by whichever the version has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace.client.address import Address
from tailrace.client.errors import BrokerError, broker_error, known_code
from tailrace.client.metadata import Leader, Node
from tailrace.client.producer_batch import ProducerBatch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.protocol.uuid import ZERO_UUID

NAMES_VERSION_MAX: Final = 12
"""The last version of Produce that names topics."""
TRANSACTIONS_V1_VERSION_MAX: Final = 11
"""The last version that does not add the partition to the transaction; for clusters without transactions v2."""

Sent = tuple[ProducerBatch, Leader]


def make_request(
    sent: Sequence[Sent], *, acks: int, timeout_ms: int, transactional_id: str | None
) -> tuple[ProduceRequest, int | None]:
    """Make the request, and say which version it may have at most."""
    topics: dict[tuple[str, bytes], TopicProduceData] = {}
    has_ids = True
    for batch, leader in sent:
        name, partition = batch.topic_partition
        topic_id = leader.topic_id
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = TopicProduceData(name=name, topic_id=topic_id)
            has_ids = has_ids and topic_id != ZERO_UUID
        topic.partition_data.append(PartitionProduceData(index=partition, records=batch.data))
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )
    return request, None if has_ids else NAMES_VERSION_MAX


def find_answers(response: ProduceResponse, sent: Sequence[Sent]) -> list[PartitionProduceResponse | None]:
    """Give each batch's answer in the order of the batches; None where there is none."""
    if len(sent) == 1 and len(response.responses) == 1 and len(response.responses[0].partition_responses) == 1:
        topic, only = response.responses[0], response.responses[0].partition_responses[0]
        (name, partition), leader = sent[0][0].topic_partition, sent[0][1]
        return [only if only.index == partition and (topic.name or topic.topic_id) in (name, leader.topic_id) else None]
    answers: dict[tuple[str | bytes, int], PartitionProduceResponse] = {
        (topic.name or topic.topic_id, partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    found: list[PartitionProduceResponse | None] = []
    for batch, leader in sent:
        name, partition = batch.topic_partition
        found.append(answers.get((name, partition)) or answers.get((leader.topic_id, partition)))
    return found


def error_in(answer: PartitionProduceResponse | None, batch: ProducerBatch) -> BrokerError | None:
    """Give the error that a batch was answered with, or None; a duplicate was written, and is none."""
    if answer is None:
        return broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"no answer for partition {batch.topic_partition}")
    if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return None
    said = "; ".join(entry.batch_index_error_message or "" for entry in answer.record_errors)
    return broker_error(known_code(answer.error_code), answer.error_message or said or str(batch.topic_partition))


def record_errors_in(answer: PartitionProduceResponse | None) -> dict[int, str]:
    """Give the records that the broker refused, by their places in the batch, with its reasons (KIP-467)."""
    if answer is None:
        return {}
    reason = answer.error_message or "the broker refused this record"
    return {entry.batch_index: entry.batch_index_error_message or reason for entry in answer.record_errors}


def nodes_in(response: ProduceResponse) -> list[Node]:
    """Give the brokers that the answer names as leaders (KIP-951)."""
    return [Node(node.node_id, Address(node.host, node.port), node.rack) for node in response.node_endpoints]
