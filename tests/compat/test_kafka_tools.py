"""Apache Kafka's own tools and Apache Kafka itself on files that Tailrace wrote, and the other way round."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.testing.apache_kafka import ApacheKafka, run_tool, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.clients import ConfluentKafka, Received, Sent

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

TOPIC = "exchanged"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}


def sample(codec: str) -> list[Sent]:
    chance = random.Random(codec)
    return [
        Sent(chance.randbytes(chance.randrange(300)) * 6, b"%d" % n, (("h", b"1"),) if n % 5 == 0 else ())
        for n in range(700)
    ]


def fill(servers: str) -> list[Received]:
    """Write a topic with every codec, half of it idempotent, and give what a consumer has to see."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(30)
    for codec in CODECS:
        options = {"compression.type": codec, "enable.idempotence": codec != "gzip", "batch.size": 20_000}
        ConfluentKafka().produce(servers, TOPIC, sample(codec), **options)
    records = [record for codec in CODECS for record in sample(codec)]
    return [Received(offset, r.value, r.key, r.headers) for offset, r in enumerate(records)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Received]]]:
    with BrokerProcess(tmp_path_factory.mktemp("tailrace")) as broker:
        records = fill(broker.bootstrap_servers)
        assert broker.stop() == 0
        yield broker.data_dir / f"{TOPIC}-0", records


def test_dump_log_segments_reads_every_record(written: tuple[Path, list[Received]]) -> None:
    folder, records = written
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 1
    dumped = run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, logs)))
    assert dumped.returncode == 0, dumped.stderr
    assert "isvalid: false" not in dumped.stdout
    assert "Found" not in dumped.stdout, dumped.stdout[:2000]
    offsets = [line for line in dumped.stdout.splitlines() if line.startswith("| offset: ")]
    assert len(offsets) == len(records)
    assert all(f"compresscodec: {codec}" in dumped.stdout for codec in CODECS)


@pytest.mark.parametrize("kind", ["index", "timeindex", "snapshot"])
def test_indexes_and_snapshots_are_sane(written: tuple[Path, list[Received]], kind: str) -> None:
    folder, _ = written
    files = sorted(folder.glob(f"*.{kind}"))
    assert files
    check = ["--index-sanity-check"] if kind == "index" else []
    dumped = run_tool("kafka.tools.DumpLogSegments", *check, "--files", ",".join(map(str, files)))
    assert dumped.returncode == 0, dumped.stderr
    assert "Exception" not in dumped.stdout + dumped.stderr
    assert "mismatch" not in dumped.stdout.lower()
    assert "Found timestamp" not in dumped.stdout
    if kind == "index":
        has_entries = [file for file in files if file.stat().st_size > 0]
        assert has_entries
        assert dumped.stdout.count("passed sanity check") == len(has_entries)


def test_every_index_entry_points_at_its_batch(written: tuple[Path, list[Received]]) -> None:
    folder, _ = written
    files = sorted(folder.glob("*.index"))
    dumped = run_tool("kafka.tools.DumpLogSegments", "--verify-index-only", "--files", ",".join(map(str, files)))
    assert dumped.returncode == 0, dumped.stderr
    assert "Mismatches" not in dumped.stdout, dumped.stdout[:2000]


def test_apache_kafka_starts_on_what_tailrace_wrote(written: tuple[Path, list[Received]], tmp_path: Path) -> None:
    folder, records = written
    kafka = ApacheKafka(tmp_path)
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(30)
        before = admin.list_topics(TOPIC).topics[TOPIC]
        assert len(before.partitions) == 1
    theirs = kafka.data_dir / f"{TOPIC}-0"
    identity = (theirs / "partition.metadata").read_bytes()
    shutil.rmtree(theirs)
    shutil.copytree(folder, theirs)
    (theirs / "partition.metadata").write_bytes(identity)
    with kafka:
        assert ConfluentKafka().consume(kafka.bootstrap_servers, TOPIC, len(records)) == records
        assert ConfluentKafka().produce(kafka.bootstrap_servers, TOPIC, [Sent(b"more")]) == [len(records)]


def test_tailrace_adopts_what_apache_kafka_wrote(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kafka") as kafka:
        records = fill(kafka.bootstrap_servers)
    broker = BrokerProcess(tmp_path / "tailrace")
    broker.data_dir.mkdir(parents=True)
    shutil.copytree(kafka.data_dir / f"{TOPIC}-0", broker.data_dir / f"{TOPIC}-0")
    identity = (broker.data_dir / f"{TOPIC}-0" / "partition.metadata").read_text()
    with broker:
        assert ConfluentKafka().consume(broker.bootstrap_servers, TOPIC, len(records)) == records
        assert ConfluentKafka().produce(broker.bootstrap_servers, TOPIC, [Sent(b"more")]) == [len(records)]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        described = admin.describe_topics(confluent_kafka.TopicCollection([TOPIC]))[TOPIC].result(30)
        topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")  # librdkafka prints plain base64
        assert f"topic_id: {topic_id}" in identity
