"""Apache Kafka's cleaner and ours on the same log: the same batches and records are left, at the same offsets.

Kafka writes the log with its cleaner idle (its ratio can't be reached), a copy is cleaned by us, then Kafka is started
again with a cleaner that is eager. Twice, so that tombstones and markers get their horizon and go.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.clock import SystemClock
from tailrace.protocol.records.batch_header import iterate_batch_headers
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.checkpoint_file import CLEANER_CHECKPOINT, OffsetCheckpointFile
from tailrace.storage.disk import Disk
from tailrace.storage.log import Log
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_loader import LogLoader
from tailrace.testing.apache_kafka import ApacheKafka, run_tool, unavailable
from tests.storage.compaction_workshop import clean, records
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
]

TOPIC = "table"
PARTITION = TopicPartition(TOPIC, 0)
CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1048576", "delete.retention.ms": "1"}
IDLE = {"log.cleaner.min.cleanable.ratio": "1.0", "log.cleaner.backoff.ms": "1000"}
EAGER = {"log.cleaner.min.cleanable.ratio": "0.01", "log.cleaner.backoff.ms": "100"}
KEYS = 300
DEADLINE_S = 60


@dataclass(frozen=True)
class Batch:
    """Everything of a batch that the time of the cleaning does not decide."""

    base_offset: int
    last_offset: int
    attributes: int
    max_timestamp: int
    producer: tuple[int, int, int]
    leader_epoch: int
    records: tuple[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]], ...]


def batches(directory: Path) -> list[Batch]:
    found: list[Batch] = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in iterate_batch_headers(data):
            records = read_batch(data, position, header)
            found.append(
                Batch(
                    header.base_offset,
                    header.last_offset,
                    header.attributes,
                    header.max_timestamp,
                    (header.producer_id, header.producer_epoch, header.base_sequence),
                    header.partition_leader_epoch,
                    tuple((one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in records),
                )
            )
    return found


def write(servers: str, seed: int) -> None:
    """Write keyed records: with every codec, with headers, deletions, and transactions of which some are aborted."""
    chance = random.Random(seed)
    for turn in range(10):
        is_transactional = turn % 2 == 1
        options: dict[str, str | int | bool] = {
            "bootstrap.servers": servers,
            "compression.type": chance.choice(("none", "gzip", "snappy", "lz4", "zstd")),
            "enable.idempotence": turn % 4 != 0,
            "linger.ms": 5,
            "batch.size": chance.choice((2_000, 30_000)),
        }
        if is_transactional:
            options["transactional.id"] = f"writer-{seed}-{turn % 4}"
        producer = confluent_kafka.Producer(options)
        if is_transactional:
            producer.init_transactions(30)
        for _ in range(4 if is_transactional else 1):
            if is_transactional:
                producer.begin_transaction()
            for _ in range(120 if is_transactional else 400):
                key = b"key-%d" % (chance.randrange(KEYS) ** 2 // KEYS)
                value = None if chance.random() < 0.1 else chance.randbytes(chance.randrange(1500))
                headers = [("trace", b"1")] if chance.random() < 0.2 else []
                producer.produce(TOPIC, value, key, headers=headers)
            if is_transactional:
                producer.flush(30)
                (producer.abort_transaction if chance.random() < 0.4 else producer.commit_transaction)(30)
        assert producer.flush(30) == 0


def opened(directory: Path) -> Log:
    return LogLoader(
        PARTITION,
        directory,
        LogConfig(CONFIG),
        LogContext(clock=SystemClock()),
        was_clean_stop=True,
        high_watermark=2**62,
    ).load()


def checkpoint_of(kafka: ApacheKafka) -> int | None:
    path = kafka.data_dir / CLEANER_CHECKPOINT
    return OffsetCheckpointFile(Disk(), path).read().get(PARTITION) if path.exists() else None


def active_base(directory: Path) -> int:
    return max(int(path.stem) for path in directory.glob("*.log"))


def clean_by_kafka(kafka: ApacheKafka) -> None:
    """Run Kafka until its cleaner has got to the active segment."""
    kafka.settings.update(EAGER)
    kafka.start()
    directory = kafka.data_dir / str(PARTITION)
    wait_for(lambda: checkpoint_of(kafka) == active_base(directory), "Kafka's cleaner is done", DEADLINE_S)
    kafka.stop()


def check_by_tool(directory: Path) -> None:
    """Have DumpLogSegments read every segment and check every index against it."""
    logs = sorted(directory.glob("*.log"))
    dumped = run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, logs)))
    assert dumped.returncode == 0, dumped.stderr
    assert "isvalid: false" not in dumped.stdout
    assert "Found" not in dumped.stdout, dumped.stdout[:2000]
    for kind in ("index", "timeindex", "txnindex"):
        files = sorted(directory.glob(f"*.{kind}"))
        dumped = run_tool("kafka.tools.DumpLogSegments", "--verify-index-only", "--files", ",".join(map(str, files)))
        assert dumped.returncode == 0, dumped.stderr
        assert "Exception" not in dumped.stdout + dumped.stderr
        assert "mismatch" not in dumped.stdout.lower(), dumped.stdout[:2000]
        assert "Found" not in dumped.stdout, dumped.stdout[:2000]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(tmp_path / "kafka", {**IDLE, "offsets.topic.num.partitions": "1",
                                            "transaction.state.log.num.partitions": "1"})  # fmt: skip
    yield kafka
    kafka.kill()


def test_both_cleaners_leave_the_same(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = kafka.data_dir / str(PARTITION)
    for turn in range(3):
        kafka.settings.update(IDLE)
        kafka.start()
        if not turn:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(30)
        write(kafka.bootstrap_servers, turn)
        kafka.stop()
        before = batches(theirs)
        checkpoint = checkpoint_of(kafka)
        ours = tmp_path / f"ours-{turn}" / str(PARTITION)
        shutil.copytree(theirs, ours)

        log = opened(ours)
        assert log.failure is None
        assert clean(log, checkpoint=checkpoint) == log.active.base_offset
        log.close()
        for path in ours.glob("*.deleted"):
            path.unlink()
        clean_by_kafka(kafka)

        expected = batches(theirs)
        assert len(expected) < len(before)
        assert batches(ours) == expected
        assert [path.name for path in sorted(ours.glob("*.log"))] == [
            path.name for path in sorted(theirs.glob("*.log"))
        ]
        check_by_tool(ours)
        again = opened(ours)
        assert [record.offset for record in records(again)] == sorted(
            one[0] for batch in expected if not batch.attributes & 0x20 for one in batch.records
        )
        again.close()
