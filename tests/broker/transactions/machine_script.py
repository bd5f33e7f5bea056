"""Events for a transaction's state machine in words, and what it does in words.

A line is a verb and `key=value` pairs: `init`, `add p=t-0 as=7:0`, `end commit v=2 as=7:0`, `stored`, `markers`. The
answer of each line is its effects, and then the state. `at=` sets the clock, which otherwise stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tailrace.broker.transactions.effects import (
    Answer,
    CompleteLater,
    Effect,
    Forget,
    Persist,
    TakeProducerId,
    WriteMarkers,
)
from tailrace.broker.transactions.metadata import TransactionMetadata, metadata_of, record_of
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from tailrace.protocol.coordinator.transaction_log import TransactionLogValue
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition

Fields = dict[str, str]


def perform(events: list[str]) -> Iterator[list[str]]:
    """Run the events on a new transactional id, whose first producer id is 7, and give the answer of each."""
    script = MachineScript()
    for event in events:
        yield script.run(event)


class MachineScript:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.transaction = Transaction("x", TransactionMetadata(producer_id=7, timeout_ms=60_000, last_update_ms=1000))

    def run(self, event: str) -> list[str]:
        verb, *words = event.split()
        fields = dict(word.split("=", 1) if "=" in word else (word, "") for word in words)
        self.now_ms = int(fields.get("at", self.now_ms))
        verbs: dict[str, Callable[[Fields], list[Effect]]] = {
            "epoch": self.epoch,
            "init": self.init,
            "add": self.add,
            "end": self.end,
            "timeout": lambda f: self.transaction.time_out(self.now_ms, _number(f, "new")),
            "expire": lambda f: self.transaction.expire(self.now_ms, 5_000),
            "stored": lambda f: self.transaction.stored(),
            "overdue": lambda f: self.transaction.overdue(ErrorCode.COORDINATOR_NOT_AVAILABLE),
            "refused": lambda f: self.transaction.refused(ErrorCode.NOT_COORDINATOR),
            "markers": lambda f: self.transaction.markers_written(self.now_ms),
            "restart": self.restart,
        }
        if verb == "verify":
            return [self.verify(fields)]
        return [*map(_shown, verbs[verb](fields)), f"  {self.state()}"]

    def epoch(self, fields: Fields) -> list[Effect]:
        """Begin with an epoch near the last, as after 32,766 transactions."""
        present = self.transaction.metadata
        self.transaction.metadata = TransactionMetadata(
            producer_id=present.producer_id, producer_epoch=int(fields["is"]), timeout_ms=60_000, last_update_ms=1000
        )
        return []

    def init(self, fields: Fields) -> list[Effect]:
        return self.transaction.init_producer_id(
            "init",
            timeout_ms=int(fields.get("timeout", 60_000)),
            now_ms=self.now_ms,
            expected=_producer(fields) if "as" in fields else None,
            new_producer_id=_number(fields, "new"),
        )

    def add(self, fields: Fields) -> list[Effect]:
        return self.transaction.add_partitions(
            "add",
            producer=_producer(fields),
            partitions=frozenset(map(_partition, fields["p"].split(","))),
            client_version=int(fields.get("v", 2)),
            now_ms=self.now_ms,
        )

    def verify(self, fields: Fields) -> str:
        return self.transaction.verify(_producer(fields), _partition(fields["p"])).name

    def end(self, fields: Fields) -> list[Effect]:
        return self.transaction.end(
            "end",
            producer=_producer(fields),
            is_commit="commit" in fields,
            client_version=int(fields.get("v", 2)),
            now_ms=self.now_ms,
            new_producer_id=_number(fields, "new"),
        )

    def restart(self, fields: Fields) -> list[Effect]:
        """Lose everything but the log."""
        value = record_of("x", self.transaction.metadata).value
        assert isinstance(value, TransactionLogValue)
        self.transaction = Transaction("x", metadata_of(value))
        return self.transaction.resume()

    def state(self) -> str:
        return _state(self.transaction.metadata) + (" pending" if self.transaction.is_pending else "")


def _state(metadata: TransactionMetadata) -> str:
    extra = f" next {metadata.next_producer_id}" if metadata.next_producer_id >= 0 else ""
    extra += f" was {metadata.previous_producer_id}" if metadata.previous_producer_id not in (-1, 7) else ""
    last = f" last {metadata.last_producer_epoch}" if metadata.last_producer_epoch >= 0 else ""
    places = " ".join(str(place) for place in sorted(metadata.partitions))
    who = f"{metadata.producer_id}:{metadata.producer_epoch}"
    return f"{metadata.status.label} {who}{last}{extra} [{places}] v{metadata.client_version}"


def _shown(effect: Effect) -> str:
    match effect:
        case Answer(reply, code, producer_id, epoch):
            who = f" {producer_id}:{epoch}" if code is ErrorCode.NONE and producer_id >= 0 else ""
            return f"answer {reply}: {code.name}{who}"
        case Persist(None):
            return "write a tombstone"
        case Persist(metadata):
            assert metadata is not None
            return f"write {_state(metadata)}"
        case WriteMarkers(producer_id, epoch, is_commit, partitions):
            places = " ".join(str(place) for place in sorted(partitions))
            return f"tell {'commit' if is_commit else 'abort'} of {producer_id}:{epoch} to [{places}]"
        case TakeProducerId():
            return "take a producer id"
        case CompleteLater():
            return "complete it later"
        case Forget():
            return "forget it"


def _producer(fields: Fields) -> ProducerIdAndEpoch:
    producer_id, epoch = fields["as"].split(":")
    return ProducerIdAndEpoch(int(producer_id), int(epoch))


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _number(fields: Fields, key: str) -> int | None:
    return int(fields[key]) if key in fields else None
