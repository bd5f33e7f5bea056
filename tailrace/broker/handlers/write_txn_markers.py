"""WriteTxnMarkers: v1.

v1: flexible. A coordinator tells the leaders of partitions how a transaction ended; `kafka-transactions.sh abort` sends
it, too, to end a transaction that its coordinator knows nothing of. The answer leaves when every in-sync replica has
the markers. Markers of one producer that name a partition twice are answered by the last one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.broker.transactions.marker_append import Marker, MarkerAppend, Place
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tailrace.protocol.topic_partition import TopicPartition


def handle(broker: Broker, request: Request[WriteTxnMarkersRequest]) -> Result:
    """Write the markers."""
    _check_access(broker, request)
    parked = Parked()

    def on_done(outcomes: dict[Place, ErrorCode]) -> None:
        for code in outcomes.values():
            if code:
                broker.metrics.record_error("WriteTxnMarkers", code)
        parked.complete(_response(request, outcomes))

    append = MarkerAppend(
        broker.replica_manager,
        broker.transactions.offsets,
        timeout_ms=broker.config.request_timeout_ms,
        on_done=on_done,
    )
    for marker in request.body.markers:
        for topic in marker.topics:
            for number in topic.partition_indexes:
                append.add(
                    marker.producer_id,
                    Marker(
                        marker.producer_id,
                        marker.producer_epoch,
                        marker.transaction_result,
                        marker.coordinator_epoch,
                    ),
                    TopicPartition(topic.name, number),
                )
    append.run()
    return parked.result()


def error_response(request: Request[WriteTxnMarkersRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every partition."""
    del message  # the response has no room for it
    places = [
        (marker.producer_id, TopicPartition(topic.name, number))
        for marker in request.body.markers
        for topic in marker.topics
        for number in topic.partition_indexes
    ]
    return _response(request, dict.fromkeys(places, code))


def _check_access(broker: Broker, request: Request[WriteTxnMarkersRequest]) -> None:
    for operation in (AclOperation.ALTER, AclOperation.CLUSTER_ACTION):
        if broker.authorizer.authorize(request.connection, operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _response(request: Request[WriteTxnMarkersRequest], outcomes: Mapping[Place, ErrorCode]) -> WriteTxnMarkersResponse:
    producers: dict[int, dict[str, dict[int, ErrorCode]]] = {m.producer_id: {} for m in request.body.markers}
    for (producer_id, (topic, number)), code in outcomes.items():
        assert isinstance(producer_id, int)
        producers[producer_id].setdefault(topic, {})[number] = code
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                            for number, code in codes.items()
                        ],
                    )
                    for name, codes in topics.items()
                ],
            )
            for producer_id, topics in producers.items()
        ]
    )
