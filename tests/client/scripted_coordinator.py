"""A transaction coordinator, and a group's, behind the scripted brokers: they keep states, or answer with errors.

`errors` are given out first, by API, one to each request; 0 is none. `steps` says in one word each what was asked.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from tailrace.client.producer import Producer
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, make_cluster
from tests.client.scripted_log import ScriptedLog


class ScriptedCoordinator:
    """Broker 0 coordinates everything."""

    def __init__(self, scripted: ScriptedCluster, *, version: int) -> None:
        self.scripted = scripted
        self.version = version
        self.steps: list[str] = []
        self.errors: dict[ApiKey, deque[int]] = defaultdict(deque)
        self.producer = (77, -1)
        self.offsets: dict[tuple[str, str, int], tuple[int, str]] = {}
        self.requests: list[Any] = []
        scripted.scripts |= {
            ApiKey.API_VERSIONS: self.answer_versions,
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.INIT_PRODUCER_ID: self.init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self.commit_offsets,
            ApiKey.END_TXN: self.end,
        }
        self._produce = scripted.scripts[ApiKey.PRODUCE]
        scripted.scripts[ApiKey.PRODUCE] = self.produce

    def answer_versions(self, request: ApiVersionsRequest) -> ApiVersionsResponse:
        answer = self.scripted.answer_versions()
        feature = FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.version, min_version_level=self.version
        )
        answer.finalized_features = [feature]
        return answer

    def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        self._note(f"produce v{self._version_now()}", request)
        answer = self._produce(request)
        assert isinstance(answer, ProduceResponse)
        return answer

    def find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        error = self._error(ApiKey.FIND_COORDINATOR)
        address = self.scripted.addresses[0]
        found = [
            Coordinator(key=key, node_id=0, host=address.host, port=address.port, error_code=error)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self._note("raise" if request.producer_id >= 0 else "init", request)
        error = self._error(ApiKey.INIT_PRODUCER_ID)
        if error:
            return InitProducerIdResponse(error_code=error)
        self.producer = (77, self.producer[1] + 1)
        return InitProducerIdResponse(producer_id=77, producer_epoch=self.producer[1])

    def add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self._note("add partitions", request)
        results = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=self._error(ApiKey.ADD_PARTITIONS_TO_TXN)
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def add_offsets(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        self._note("add offsets", request)
        return AddOffsetsToTxnResponse(error_code=self._error(ApiKey.ADD_OFFSETS_TO_TXN))

    def commit_offsets(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        self._note(f"offsets v{self._version_now()}", request)
        answer = TxnOffsetCommitResponse()
        for topic in request.topics:
            partitions = []
            for entry in topic.partitions:
                error = self._error(ApiKey.TXN_OFFSET_COMMIT)
                if not error:
                    key = (request.group_id, topic.name, entry.partition_index)
                    self.offsets[key] = (entry.committed_offset, entry.committed_metadata or "")
                partitions.append(
                    TxnOffsetCommitResponsePartition(partition_index=entry.partition_index, error_code=error)
                )
            answer.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return answer

    def end(self, request: EndTxnRequest) -> EndTxnResponse:
        self._note(f"{'commit' if request.committed else 'abort'} v{self._version_now()}", request)
        error = self._error(ApiKey.END_TXN)
        if error:
            return EndTxnResponse(error_code=error)
        if (request.producer_id, request.producer_epoch) != self.producer:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if self.version < 2:
            return EndTxnResponse()
        self.producer = (77, self.producer[1] + 1)
        return EndTxnResponse(producer_id=77, producer_epoch=self.producer[1])

    def _note(self, step: str, request: Any) -> None:
        self.steps.append(step)
        self.requests.append(request)

    def _version_now(self) -> int:
        return self.scripted.requests[-1][1]

    def _error(self, api: ApiKey) -> int:
        return self.errors[api].popleft() if self.errors[api] else 0


class TransactionalSetup:
    """A transactional producer in front of scripted brokers, with a clock to turn."""

    def __init__(self, *, version: int = 2, partitions: int = 2, **options: Any) -> None:
        self.scripted = ScriptedCluster(topics={"flights": partitions})
        self.clock = VirtualClock()
        self.log = ScriptedLog(self.scripted, checks_sequences=True)
        self.coordinator = ScriptedCoordinator(self.scripted, version=version)
        self.cluster = make_cluster(self.scripted, self.clock)
        self.producer: Producer[Any, Any] = Producer(cluster=self.cluster, transactional_id="pilot", **options)
