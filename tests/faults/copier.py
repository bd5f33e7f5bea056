"""A consume-transform-produce loop in a process of its own, so that it can be killed with -9 at any moment.

It copies each record of a topic to the same partition of another, with `c` before its value, in transactions that hold
the group's offsets as well; run as `python -m tests.faults.copier SERVERS SOURCE TARGET NAME [RECORDS A TRANSACTION]`.
What a librdkafka application is told to do, it does: it aborts and goes back to the committed offsets where an error
says so, tries again where that is allowed, and ends where it is fatal (whoever watches it starts another). It ends as
well where librdkafka comes back from nothing for a while: when the broker restarts between two of the requests that add
offsets to a transaction, it waits for an event that has been, with Apache Kafka as with Tailrace.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

DEADLINE_S = 60.0
PATIENCE_S = 2.5
"""How long a step may take before the process gives itself up."""
SESSION_TIMEOUT_MS = 6_000


class Copier:
    """See the module's docstring."""

    def __init__(self, servers: str, source: str, target: str, name: str, records_max: int) -> None:
        self._source = source
        self._target = target
        self._records_max = records_max
        quick = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 50, "log_level": 0}
        quick |= {"retry.backoff.ms": 5, "retry.backoff.max.ms": 50, "topic.metadata.refresh.fast.interval.ms": 10}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": name,
                "group.instance.id": f"{name}-member",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 200,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                **quick,
            }
        )
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 1, **quick}
        )
        self._is_ending = threading.Event()
        self._last_step = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() < self._last_step + PATIENCE_S:
            threading.Event().wait(0.1)
        print("stuck", flush=True)
        os._exit(1)

    def run(self) -> None:
        """Copy until SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: self._is_ending.set())
        self._persist(lambda: self._producer.init_transactions(DEADLINE_S))
        self._consumer.subscribe([self._source], on_assign=self._begin_where_committed)
        print("ready", flush=True)
        while not self._is_ending.is_set():
            self._last_step = time.monotonic()
            messages = [m for m in self._consumer.consume(self._records_max, 0.05) if m.error() is None]
            if messages:
                self._copy(messages)
        self._consumer.close()

    def _copy(self, messages: list[confluent_kafka.Message]) -> None:
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(self._target, b"c" + message.value(), partition=message.partition())
                self._producer.poll(0)
            ends = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
            offsets = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
            group = self._consumer.consumer_group_metadata()
            self._persist(lambda: self._producer.send_offsets_to_transaction(offsets, group, DEADLINE_S))
            self._persist(lambda: self._producer.commit_transaction(DEADLINE_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._persist(lambda: self._producer.abort_transaction(DEADLINE_S))
            self._go_back()

    def _persist(self, action: object) -> None:
        """Do it again for as long as it says that this may help."""
        assert callable(action)
        while True:
            try:
                action()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _begin_where_committed(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)

    def _go_back(self) -> None:
        """Read on from the committed offsets: what was read for the aborted transaction has to be read again."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        committed: list[TopicPartition] = []
        self._persist(lambda: committed.extend(self._consumer.committed(assigned, DEADLINE_S)))
        for place in committed:
            offset = place.offset if place.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            self._consumer.seek(TopicPartition(place.topic, place.partition, offset))


if __name__ == "__main__":
    servers, source, target, name, *rest = sys.argv[1:]
    Copier(servers, source, target, name, int(rest[0]) if rest else 200).run()
