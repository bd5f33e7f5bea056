"""One transactional id, its producers and its partitions, in a world that delays, doubles, loses and crashes.

Producers speak transactions v2. Every message stays in the bag after it was delivered, and may be delivered again at
any later time; that is the network of KIP-890. A crash loses the machine and whatever was being written, or not. The
world knows what each record belongs to, so that `check` can say whether any transaction was torn or decided wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tailrace.broker.transactions.effects import (
    Answer,
    CompleteLater,
    Effect,
    Forget,
    Persist,
    TakeProducerId,
    WriteMarkers,
)
from tailrace.broker.transactions.metadata import TransactionMetadata, TransactionStatus, metadata_of, record_of
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from tailrace.protocol.coordinator.transaction_log import TransactionLogValue
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition

PARTITIONS = tuple(TopicPartition("t", number) for number in range(6))
TIMEOUT_MS = 200
FATAL = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH)
FATAL += (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)


@dataclass
class FakePartition:
    """What a log keeps of producers: their epoch and their open records."""

    epochs: dict[int, int] = field(default_factory=dict[int, int])
    open: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    committed: list[int] = field(default_factory=list[int])
    aborted: list[int] = field(default_factory=list[int])

    def has_open(self, producer: ProducerIdAndEpoch) -> bool:
        return self.epochs.get(producer.producer_id) == producer.producer_epoch and bool(
            self.open.get(producer.producer_id)
        )

    def append(self, producer: ProducerIdAndEpoch, tag: int) -> None:
        self.epochs[producer.producer_id] = producer.producer_epoch
        records = self.open.setdefault(producer.producer_id, [])
        if tag not in records:  # sequence numbers tell repetitions
            records.append(tag)

    def end(self, effect: WriteMarkers) -> None:
        assert effect.producer_epoch >= self.epochs.get(effect.producer_id, -1), "a marker under an old epoch"
        self.epochs[effect.producer_id] = effect.producer_epoch
        (self.committed if effect.is_commit else self.aborted).extend(self.open.pop(effect.producer_id, []))


@dataclass
class Client:
    """A producer of transactions v2: one transaction after the other, each with a tag of its own."""

    producer: ProducerIdAndEpoch | None = None
    tag: int = 0
    unacknowledged: set[TopicPartition] = field(default_factory=set[TopicPartition])
    is_ending: bool | None = None
    """The decision it has asked for."""
    is_dead: bool = False


@dataclass(eq=False)
class Message:
    """Something on the network: the world delivers it, once or more often, or never."""

    name: str
    deliver: Callable[[], None]


class World:
    """See the module's docstring; `chance` decides everything."""

    def __init__(self, chance: Random, first_epoch: int = -1) -> None:
        self.chance = chance
        self.now_ms = 1_000
        self.next_producer_id = 100
        first = TransactionMetadata(
            producer_id=7, producer_epoch=first_epoch, timeout_ms=TIMEOUT_MS, last_update_ms=self.now_ms
        )
        self.log: list[TransactionMetadata] = [first]
        self.machine = Transaction("x", first)
        self.writing: TransactionMetadata | None = None
        self.is_overdue = False
        self.markers: tuple[WriteMarkers, set[TopicPartition]] | None = None
        self.must_complete = False
        self.partitions = {name: FakePartition() for name in PARTITIONS}
        self.bag: list[Message] = []
        self.client = Client()
        self.tags = 0
        self.told: dict[int, bool] = {}
        """What clients were told about their transactions: committed, or not."""
        self.used_ids: set[tuple[int, int]] = set()

    # Chance

    def step(self) -> None:
        """Let something happen."""
        self.now_ms += self.chance.randrange(3)
        actions = [self.send, self.send, self.deliver, self.deliver, self.deliver, self.write, self.write, self.mark]
        actions += [self.mark, self.complete]
        roll = self.chance.random()
        if roll < 0.005:
            self.crash()
        elif roll < 0.011:
            self.client = Client()  # its process was killed, and another is started
        elif roll < 0.03:
            self.put(lambda new: self.machine.time_out(self.now_ms, new))
        else:
            self.chance.choice(actions)()

    def settle(self) -> None:
        """Let everything end: no client any more, the last transaction times out."""
        self.client.is_dead = True
        self.now_ms += 10 * TIMEOUT_MS
        for _ in range(200):
            self.write(succeeds=True)
            self.mark()
            self.complete()
            self.put(lambda new: self.machine.time_out(self.now_ms, new))

    # The client

    def send(self) -> None:
        client = self.client
        if client.is_dead:
            self.client = Client()
            self.bag = [message for message in self.bag if message.name != "init" or self.chance.random() < 0.1]
        elif client.producer is None:
            if not any(message.name == "init" for message in self.bag[-3:]):
                self.bag.append(Message("init", lambda: self.init(client)))
        elif not client.tag:
            self.tags += 1
            client.tag = self.tags
            client.unacknowledged = set(self.chance.sample(PARTITIONS, self.chance.randint(0, 3)))
        elif client.unacknowledged:
            producer, tag, place = client.producer, client.tag, self.chance.choice(sorted(client.unacknowledged))
            self.bag.append(Message(f"produce {tag}", lambda: self.produce(client, producer, tag, place)))
        else:
            if client.is_ending is None:
                client.is_ending = self.chance.random() < 0.6
            producer, tag, is_commit = client.producer, client.tag, client.is_ending
            self.bag.append(Message(f"end {tag}", lambda: self.end(client, producer, tag, is_commit)))

    def deliver(self) -> None:
        """Deliver a message; now and then a very old one again."""
        if not self.bag:
            return
        message = self.chance.choice(self.bag if self.chance.random() < 0.2 else self.bag[-4:])
        if message.name == "init":
            self.bag.remove(message)  # each one replaces the producer, so they must not be many
        message.deliver()

    def init(self, client: Client) -> None:
        def reply(answer: Answer) -> None:
            if answer.code is ErrorCode.NONE and client.producer is None:
                # An answer to a repeated request may be older than the newest epoch: then the client is fenced later.
                client.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

        self.put(
            lambda new: self.machine.init_producer_id(
                reply, timeout_ms=TIMEOUT_MS, now_ms=self.now_ms, new_producer_id=new
            )
        )

    def produce(self, client: Client, producer: ProducerIdAndEpoch, tag: int, place: TopicPartition) -> None:
        partition = self.partitions[place]

        def append(code: ErrorCode) -> None:
            is_current = client.tag == tag and client.producer == producer
            if code is ErrorCode.NONE:
                assert partition.epochs.get(producer.producer_id, -1) <= producer.producer_epoch
                partition.append(producer, tag)
                if is_current:
                    client.unacknowledged.discard(place)
            elif code in FATAL and is_current:
                client.is_dead = True

        if partition.epochs.get(producer.producer_id, -1) > producer.producer_epoch:
            append(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif partition.has_open(producer):
            append(ErrorCode.NONE)
        else:
            # Between the answer and the append anything may have happened, so the broker asks once more.
            self.put(
                lambda new: self.machine.add_partitions(
                    lambda answer: append(answer.code or self.machine.verify(producer, place)),
                    producer=producer,
                    partitions=frozenset({place}),
                    client_version=2,
                    now_ms=self.now_ms,
                )
            )

    def end(self, client: Client, producer: ProducerIdAndEpoch, tag: int, is_commit: bool) -> None:
        def reply(answer: Answer) -> None:
            if client.tag != tag or client.producer != producer:
                return
            if answer.code is ErrorCode.NONE:
                self.told[tag] = is_commit
                client.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
                client.tag, client.is_ending = 0, None
            elif answer.code in FATAL:
                client.is_dead = True

        self.put(
            lambda new: self.machine.end(
                reply,
                producer=producer,
                is_commit=is_commit,
                client_version=2,
                now_ms=self.now_ms,
                new_producer_id=new,
            )
        )

    # The coordinator

    def put(self, event: Callable[[int | None], list[Effect]]) -> None:
        effects = event(None)
        if effects and isinstance(effects[0], TakeProducerId):
            self.next_producer_id += 1
            effects = event(self.next_producer_id)
        self.perform(effects)

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(reply, _, _, _):
                    reply(effect)
                case Persist(metadata):
                    assert metadata is not None, "nothing expires in this world"
                    assert self.writing is None, "two writes at once"
                    self.writing = metadata
                    self.is_overdue = False
                case WriteMarkers(_, _, _, partitions):
                    self.markers = (effect, set(partitions))
                case CompleteLater():
                    self.must_complete = True
                case TakeProducerId() | Forget():
                    raise AssertionError(effect)

    def write(self, *, succeeds: bool = False) -> None:
        if self.writing is None:
            return
        roll = 1.0 if succeeds else self.chance.random()
        if roll < 0.1 and not self.is_overdue:
            self.writing = None
            self.perform(self.machine.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif roll < 0.2:
            self.is_overdue = True
            self.perform(self.machine.overdue(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self.log.append(self.writing)
            self.writing = None
            self.perform(self.machine.stored())

    def mark(self) -> None:
        """Write one marker, and complete when all are written."""
        if self.markers is None:
            return
        effect, left = self.markers
        if left:
            place = self.chance.choice(sorted(left))
            self.partitions[place].end(effect)
            left.discard(place)
        if not left:
            self.markers = None
            self.perform(self.machine.markers_written(self.now_ms))

    def complete(self) -> None:
        if self.must_complete:
            self.must_complete = False
            self.perform(self.machine.markers_written(self.now_ms))

    def crash(self) -> None:
        """Lose what is in memory; what was being written may have come to the log."""
        if self.writing is not None and self.chance.random() < 0.5:
            self.log.append(self.writing)
        self.writing, self.markers, self.must_complete = None, None, False
        value: Any = record_of("x", self.log[-1]).value
        assert isinstance(value, TransactionLogValue)
        self.machine = Transaction("x", metadata_of(value))
        self.perform(self.machine.resume())

    # What must hold

    def check(self) -> None:
        """Say whether every transaction is whole, and ended as its client was told."""
        places = self.partitions.values()
        committed = {tag for place in places for tag in place.committed}
        aborted = {tag for place in places for tag in place.aborted}
        assert not any(place.open for place in places if any(place.open.values())), "a transaction is left open"
        assert committed & aborted == set(), "torn transactions"
        for tag, is_commit in self.told.items():
            assert tag not in (aborted if is_commit else committed), f"transaction {tag} was decided otherwise"
        for before, after in zip(self.log, self.log[1:], strict=False):
            if before.producer_id == after.producer_id:
                assert after.producer_epoch >= before.producer_epoch
        assert self.machine.metadata.status is not TransactionStatus.ONGOING
