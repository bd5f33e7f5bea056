"""Requests about transactions in words, put to a broker, and its answers in words.

A line is a verb and `key=value` pairs: `init x`, `produce x t-0 seq=0 v=12`, `end x commit v=5`. Who speaks is what the
last `init` or `end` of that transactional id answered; `as=1:0` says otherwise, and producer ids are numbered in the
order in which the broker gave them. `again` puts a line until it is answered otherwise than with a code that says
"not yet". Both Apache Kafka and Tailrace are talked to like that, so a transcript of one holds the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest
from tailrace.protocol.messages.describe_producers import TopicRequest as DescribedTopic
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tailrace.protocol.records.batch_header import iterate_batch_headers
from tailrace.protocol.records.control import read_end_txn_marker
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tests.broker.transactions.blocking_wire import BlockingWire
from tests.waiting import wait_for

DEADLINE_S = 20.0
NOT_YET = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
NOT_YET += ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE")


class Line:
    """One line of a conversation."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        self.fields: dict[str, str] = {}
        for word in text.split():
            if "=" in word:
                key, value = word.split("=", 1)
                self.fields[key] = value
            else:
                self.words.append(word)

    def number(self, key: str, default: int) -> int:
        return int(self.fields.get(key, default))

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The words that name partitions, `t-0`."""
        found: list[tuple[str, int]] = []
        for word in self.words[2:]:
            topic, _, number = word.rpartition("-")
            if topic and number.isdigit():
                found.append((topic, int(number)))
        return found


class Conversation:
    """A talk with the broker on `port`; `prefix` keeps its names apart from those of other talks."""

    def __init__(self, port: int, prefix: str) -> None:
        self._wire = BlockingWire(port)
        self._prefix = prefix
        self._known_ids: list[int] = []
        self._producers: dict[str, tuple[int, int]] = {}

    def perform(self, events: list[str]) -> Iterator[list[str]]:
        """Put every line, and give the answers."""
        with self._wire:
            for event in events:
                yield self._put(event)

    def _put(self, text: str) -> list[str]:
        verb = text.split()[0]
        if verb != "again":
            return self._verb(verb)(Line(text))
        rest = text.split(maxsplit=1)[1]
        answers: list[str] = []

        def is_settled() -> bool:
            answers[:] = self._put(rest)
            return not any(code in " ".join(answers) for code in NOT_YET)

        wait_for(is_settled, text, DEADLINE_S)
        return answers

    def _verb(self, verb: str) -> Callable[[Line], list[str]]:
        verbs: dict[str, Callable[[Line], list[str]]] = {
            "topic": self._topic,
            "find": self._find,
            "init": self._init,
            "add": self._add,
            "batch": self._add_batched,
            "offsets": self._add_offsets,
            "produce": self._produce,
            "commit": self._commit_offsets,
            "end": self._end,
            "markers": self._markers,
            "describe": self._describe,
            "list": self._list,
            "producers": self._describe_producers,
            "fetch": self._fetch,
            "fetched": self._fetch_offsets,
        }
        return verbs[verb]

    # Names

    def _name(self, name: str) -> str:
        if name == "nobody":
            return ""
        return name if name.startswith("__") else f"{self._prefix}{name}"

    def _producer(self, line: Line, name: str) -> tuple[int, int]:
        if "as" not in line.fields:
            return self._producers.get(name, (-1, -1))
        number, epoch = line.fields["as"].split(":")
        return (self._known_ids[int(number) - 1] if int(number) > 0 else int(number)), int(epoch)

    def _show(self, producer_id: int, epoch: int) -> str:
        if producer_id < 0:
            return f"{producer_id}:{epoch}"
        if producer_id not in self._known_ids:
            self._known_ids.append(producer_id)
        return f"{self._known_ids.index(producer_id) + 1}:{epoch}"

    def _ask(self, message: Any, version: int) -> Any:
        return self._wire.ask(message, version)

    # Verbs

    def _topic(self, line: Line) -> list[str]:
        topic = CreatableTopic(name=self._name(line.words[1]), num_partitions=line.number("n", 1), replication_factor=1)
        response = self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        for number in range(topic.num_partitions):
            self._put(f"again producers {line.words[1]}-{number}")
        return [ErrorCode(response.topics[0].error_code).name]

    def _find(self, line: Line) -> list[str]:
        kind = {"transaction": 1, "group": 0}[line.words[1]]
        response = self._ask(FindCoordinatorRequest(key=self._name(line.words[2]), key_type=kind), 3)
        return [ErrorCode(response.error_code).name]

    def _init(self, line: Line) -> list[str]:
        name = line.words[1]
        producer_id, epoch = self._producer(line, name) if "as" in line.fields else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self._name(name),
            transaction_timeout_ms=line.number("timeout", 60_000),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response = self._ask(request, line.number("v", 5))
        shown = self._show(response.producer_id, response.producer_epoch)
        if not response.error_code:
            self._producers[name] = (response.producer_id, response.producer_epoch)
        return [f"{ErrorCode(response.error_code).name} {shown}"]

    def _add(self, line: Line) -> list[str]:
        name = line.words[1]
        producer_id, epoch = self._producer(line, name)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name(name),
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=self._topics(line),
        )
        response = self._ask(request, line.number("v", 3))
        return self._topic_results(response.results_by_topic_v3_and_below)

    def _add_batched(self, line: Line) -> list[str]:
        """`batch x t-0 verify` asks as another broker does."""
        name = line.words[1]
        producer_id, epoch = self._producer(line, name)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self._name(name),
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only="verify" in line.words,
            topics=self._topics(line),
        )
        response = self._ask(AddPartitionsToTxnRequest(transactions=[transaction]), line.number("v", 5))
        top = [ErrorCode(response.error_code).name] if response.error_code else []
        return top + [r for t in response.results_by_transaction for r in self._topic_results(t.topic_results)]

    def _topics(self, line: Line) -> list[AddPartitionsToTxnTopic]:
        return [AddPartitionsToTxnTopic(name=self._name(topic), partitions=[n]) for topic, n in line.partitions]

    def _topic_results(self, topics: list[Any]) -> list[str]:
        return sorted(
            f"{self._plain(topic.name)}-{result.partition_index} {ErrorCode(result.partition_error_code).name}"
            for topic in topics
            for result in topic.results_by_partition
        )

    def _plain(self, name: str) -> str:
        return name.removeprefix(self._prefix)

    def _add_offsets(self, line: Line) -> list[str]:
        name = line.words[1]
        producer_id, epoch = self._producer(line, name)
        request = AddOffsetsToTxnRequest(
            transactional_id=self._name(name),
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=self._name(line.words[2]),
        )
        return [ErrorCode(self._ask(request, line.number("v", 4)).error_code).name]

    def _produce(self, line: Line) -> list[str]:
        name = line.words[1]
        producer_id, epoch = self._producer(line, name)
        topics: list[TopicProduceData] = []
        for topic, number in line.partitions:
            batch = write_batch(
                [Record(0, time.time_ns() // 1_000_000, b"k", b"v")],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=line.number("seq", 0),
                is_transactional="plain" not in line.words,
            )
            data = PartitionProduceData(index=number, records=bytes(batch))
            topics.append(TopicProduceData(name=self._name(topic), partition_data=[data]))
        request = ProduceRequest(
            transactional_id=None if "noid" in line.words else self._name(name),
            acks=line.number("acks", -1),
            timeout_ms=10_000,
            topic_data=topics,
        )
        response = self._ask(request, line.number("v", 12))
        return sorted(
            f"{self._plain(topic.name)}-{part.index} {ErrorCode(part.error_code).name} at {part.base_offset}"
            + (f": {part.error_message}" if part.error_message and "message" in line.words else "")
            for topic in response.responses
            for part in topic.partition_responses
        )

    def _commit_offsets(self, line: Line) -> list[str]:
        """`commit x g t-0=5` commits offsets of a group."""
        name, group = line.words[1:3]
        producer_id, epoch = self._producer(line, name)
        known = ("as", "v", "generation", "member", "instance", "metadata")
        topics = [
            TxnOffsetCommitRequestTopic(
                name=self._name(place.rpartition("-")[0]),
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=int(place.rpartition("-")[2]),
                        committed_offset=int(offset),
                        committed_metadata=line.fields.get("metadata", "m"),
                    )
                ],
            )
            for place, offset in line.fields.items()
            if place not in known
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self._name(name),
            group_id=self._name(group),
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=line.number("generation", -1),
            member_id=line.fields.get("member", ""),
            group_instance_id=line.fields.get("instance"),
            topics=topics,
        )
        response = self._ask(request, line.number("v", 5))
        return sorted(
            f"{self._plain(topic.name)}-{part.partition_index} {ErrorCode(part.error_code).name}"
            for topic in response.topics
            for part in topic.partitions
        )

    def _end(self, line: Line) -> list[str]:
        name = line.words[1]
        producer_id, epoch = self._producer(line, name)
        request = EndTxnRequest(
            transactional_id=self._name(name),
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=line.words[2] == "commit",
        )
        version = line.number("v", 5)
        response = self._ask(request, version)
        code = ErrorCode(response.error_code).name
        if version < 5:
            return [code]
        if not response.error_code and "as" not in line.fields:
            self._producers[name] = (response.producer_id, response.producer_epoch)
        return [f"{code} {self._show(response.producer_id, response.producer_epoch)}"]

    def _markers(self, line: Line) -> list[str]:
        """`markers x abort t-0 coordinator=3` is what an operator's tool sends."""
        producer_id, epoch = self._producer(line, line.words[1])
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=line.words[2] == "commit",
            topics=[WritableTxnMarkerTopic(name=self._name(t), partition_indexes=[n]) for t, n in line.partitions],
            coordinator_epoch=line.number("coordinator", 0),
        )
        response = self._ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        return sorted(
            f"{self._plain(topic.name)}-{part.partition_index} {ErrorCode(part.error_code).name}"
            for result in response.markers
            for topic in result.topics
            for part in topic.partitions
        )

    def _describe(self, line: Line) -> list[str]:
        """`describe x until=Ongoing` asks until the transaction is in that state."""
        until = line.fields.get("until")
        request = DescribeTransactionsRequest(transactional_ids=[self._name(line.words[1])])
        (state,) = self._ask(request, 0).transaction_states
        if until is not None and state.transaction_state != until:
            wait_for(lambda: self._ask(request, 0).transaction_states[0].transaction_state == until, until, DEADLINE_S)
            (state,) = self._ask(request, 0).transaction_states
        if state.error_code:
            return [ErrorCode(state.error_code).name]
        partitions = sorted(f"{self._plain(t.topic)}-{number}" for t in state.topics for number in t.partitions)
        is_started = "started" if state.transaction_start_time_ms >= 0 else "not started"
        shown = self._show(state.producer_id, state.producer_epoch)
        return [
            f"{state.transaction_state} {shown} {state.transaction_timeout_ms} ms {is_started} [{' '.join(partitions)}]"
        ]

    def _list(self, line: Line) -> list[str]:
        pattern = line.fields.get("pattern")
        request = ListTransactionsRequest(
            state_filters=[state for state in line.fields.get("states", "").split(",") if state],
            producer_id_filters=[
                self._known_ids[int(number) - 1] for number in line.fields.get("ids", "").split(",") if number
            ],
            duration_filter=line.number("duration", -1),
            transactional_id_pattern=None if pattern is None else pattern.replace("~", self._prefix),
        )
        response = self._ask(request, line.number("v", 2))
        if response.error_code:
            return [ErrorCode(response.error_code).name]
        unknown = [f"unknown {name}" for name in sorted(response.unknown_state_filters)]
        return unknown + sorted(
            f"{self._plain(state.transactional_id)} {self._show(state.producer_id, 0)[:-2]} {state.transaction_state}"
            for state in response.transaction_states
            if state.transactional_id.startswith(self._prefix)
        )

    def _describe_producers(self, line: Line) -> list[str]:
        ((topic, number),) = Line(f"x {line.words[0]} {line.words[1]}").partitions
        request = DescribeProducersRequest(topics=[DescribedTopic(name=self._name(topic), partition_indexes=[number])])
        ((part,),) = [t.partitions for t in self._ask(request, 0).topics]
        if part.error_code:
            return [ErrorCode(part.error_code).name]
        return sorted(
            f"{self._show(p.producer_id, p.producer_epoch)} last {p.last_sequence} coordinator {p.coordinator_epoch} "
            f"open {p.current_txn_start_offset}"
            for p in part.active_producers
        )

    def _fetch(self, line: Line) -> list[str]:
        """`fetch t-0` shows what read_committed sees: batches, markers, and which producers were aborted."""
        ((topic, number),) = Line(f"x {line.words[0]} {line.words[1]}").partitions
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000_000,
            isolation_level=1,
            topics=[
                FetchTopic(
                    topic=self._name(topic),
                    partitions=[FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1_000_000)],
                )
            ],
        )
        ((part,),) = [t.partitions for t in self._ask(request, 12).responses]
        shown = [f"high watermark {part.high_watermark} last stable {part.last_stable_offset}"]
        records = part.records or b""
        for position, header in iterate_batch_headers(records, allow_partial_tail=True):
            who = self._show(header.producer_id, header.producer_epoch)
            kind = "records"
            if header.is_control:
                marker = read_end_txn_marker(read_batch(records, position, header)[0])
                assert marker is not None
                kind = f"{marker.control_type.name.lower()}"
            shown.append(f"{header.base_offset} {kind} of {who}")
        return shown + [
            f"aborted {self._show(aborted.producer_id, 0)[:-2]} from {aborted.first_offset}"
            for aborted in part.aborted_transactions or []
        ]

    def _fetch_offsets(self, line: Line) -> list[str]:
        """`fetched g t-0` gives a group's offset, stable or not."""
        group = line.words[1]
        topics = [OffsetFetchRequestTopics(name=self._name(t), partition_indexes=[n]) for t, n in line.partitions]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self._name(group), topics=topics)],
            require_stable="stable" in line.words,
        )
        response = self._ask(request, 8)
        return [
            f"{self._plain(topic.name)}-{part.partition_index} "
            f"{ErrorCode(part.error_code).name} {part.committed_offset}"
            for found in response.groups
            for topic in found.topics
            for part in topic.partitions
        ]
