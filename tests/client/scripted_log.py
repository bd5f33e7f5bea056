"""Partitions behind a scripted broker: they take batches as Kafka does, or answer with what a test lays out.

With `checks_sequences` they refuse what is out of sequence, answer a duplicate with its first offset, and fence epochs,
as a broker's producer state does; so a producer's whole behaviour can be held against it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tailrace.client.producer import Producer
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.protocol.records.batch_header import BatchHeader, check_crc, read_batch_header
from tailrace.protocol.records.reader import read_records
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, make_cluster

Fault = Callable[["ScriptedLog", PartitionProduceData], PartitionProduceResponse | None]


class ScriptedLog:
    """What the scripted brokers have written. `errors` are given out first, one to each batch; 0 is none."""

    def __init__(self, scripted: ScriptedCluster, *, checks_sequences: bool = False) -> None:
        self.headers: list[tuple[int, BatchHeader]] = []
        self.values: dict[int, list[bytes | None]] = {}
        self.refused: list[tuple[int, BatchHeader, ErrorCode]] = []
        self.errors: list[int] = []
        self.loses = 0
        self.loses_answers = 0
        self.producer_ids = 0
        self.log_start_offset = 0
        self.batch_bytes_max = 1 << 30
        self.requests: list[ProduceRequest] = []
        self.checks_sequences = checks_sequences
        self.state: dict[tuple[int, int], tuple[int, int]] = {}
        self.recent: dict[tuple[int, int, int, int], int] = {}
        scripted.scripts[ApiKey.PRODUCE] = self.produce
        scripted.scripts[ApiKey.INIT_PRODUCER_ID] = self.init_producer_id

    def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=100 + self.producer_ids, producer_epoch=0)

    def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        self.requests.append(request)
        if self.loses:
            self.loses -= 1
            raise ConnectionResetError("gone")
        topics = []
        for topic in request.topic_data:
            answers = [self._append(partition) for partition in topic.partition_data]
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        if self.loses_answers:
            self.loses_answers -= 1
            raise ConnectionResetError("gone")
        return ProduceResponse(responses=topics) if request.acks else None

    def _append(self, data: PartitionProduceData) -> PartitionProduceResponse:
        partition, records = data.index, data.records
        assert isinstance(records, bytes | bytearray | memoryview)
        header = read_batch_header(records)
        check_crc(records, 0, header)
        error = self.errors.pop(0) if self.errors else 0
        if not error and len(records) > self.batch_bytes_max:
            error = ErrorCode.MESSAGE_TOO_LARGE
        log = self.values.setdefault(partition, [])
        if not error and self.checks_sequences:
            duplicate = self.recent.get((partition, header.producer_id, header.producer_epoch, header.base_sequence))
            if duplicate is not None:
                return PartitionProduceResponse(index=partition, base_offset=duplicate)
            error = self._check(partition, header)
        if error:
            self.refused.append((partition, header, ErrorCode(error)))
            return PartitionProduceResponse(
                index=partition,
                error_code=error,
                error_message="as scripted",
                log_start_offset=self.log_start_offset,
                base_offset=-1,
            )
        self.headers.append((partition, header))
        base_offset = len(log)
        log += [record.value for record in read_records(records)]
        self.state[partition, header.producer_id] = (header.producer_epoch, header.last_sequence)
        self.recent[partition, header.producer_id, header.producer_epoch, header.base_sequence] = base_offset
        return PartitionProduceResponse(index=partition, base_offset=base_offset, log_start_offset=0)

    def _check(self, partition: int, header: BatchHeader) -> int:
        epoch, last = self.state.get((partition, header.producer_id), (-1, -1))
        if header.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = 0 if header.producer_epoch > epoch >= 0 else (last + 1) & 0x7FFFFFFF
        if epoch == -1:
            return 0  # as brokers do: who is not known may begin anywhere
        return ErrorCode.NONE if header.base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Setup:
    """A producer in front of scripted brokers, with a clock to turn."""

    def __init__(
        self, *, partitions: int = 2, brokers: int = 1, checks_sequences: bool = False, **options: Any
    ) -> None:
        self.scripted = ScriptedCluster(brokers=brokers, topics={"flights": partitions})
        self.clock = VirtualClock()
        self.log = ScriptedLog(self.scripted, checks_sequences=checks_sequences)
        self.cluster = make_cluster(self.scripted, self.clock, **options.pop("client", {}))
        self.cluster.random = Random(1)
        self.producer: Producer[Any, Any] = Producer(cluster=self.cluster, **options)
