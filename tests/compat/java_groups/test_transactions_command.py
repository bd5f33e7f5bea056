"""What kafka-transactions.sh says of transactions, and how it ends one that hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.broker.transactions.blocking_wire import BlockingWire
from tests.compat.conftest import Server
from tests.compat.java_groups.conftest import SETTINGS
from tests.compat.java_tools.tool_runner import Ran, ToolRunner
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

ENDED = ("CompleteAbort", "Empty")
Command = Callable[..., Ran]


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolRunner]:
    with ToolRunner() as runner:
        yield runner


@pytest.fixture(scope="module")
def transactions(servers: str, tools: ToolRunner) -> Command:
    return command(servers, tools)


def command(servers: str, tools: ToolRunner) -> Command:
    program = "org.apache.kafka.tools.TransactionsCommand"
    return lambda *arguments: tools.run(program, "--bootstrap-server", servers, *map(str, arguments), timeout_s=60)


def rows(ran: Ran) -> list[list[str]]:
    assert ran.status == "0", ran
    return [line.split() for line in ran.out.splitlines()[1:] if line.strip()]


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic(1)


@pytest.fixture
def producer(servers: str, group: str) -> confluent_kafka.Producer:
    """A producer whose transactional id is the `group` of the test."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": group})
    producer.init_transactions(60)
    return producer


def begin(producer: confluent_kafka.Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"v")
    assert producer.flush(30) == 0


def test_a_transaction_is_listed_and_described(
    transactions: Command, producer: confluent_kafka.Producer, group: str, topic: str
) -> None:
    begin(producer, topic)
    listed = {row[0]: row for row in rows(transactions("list"))}
    assert listed[group][3] == "Ongoing"
    assert group not in {row[0] for row in rows(transactions("list", "--duration-filter", 3_600_000))}
    assert group in {row[0] for row in rows(transactions("list", "--transactional-id-pattern", f"{group}|none"))}
    assert rows(transactions("list", "--transactional-id-pattern", "none")) == []
    (described,) = rows(transactions("describe", "--transactional-id", group))
    coordinator, transactional_id, producer_id, epoch, state, timeout_ms, *_, partitions = described
    assert (coordinator, transactional_id, state, timeout_ms) == ("1", group, "Ongoing", "60000")
    assert partitions == f"{topic}-0"
    assert producer_id == listed[group][2]
    (active,) = rows(transactions("describe-producers", "--topic", topic, "--partition", 0))
    assert (active[0], active[1], active[3], active[5]) == (producer_id, epoch, "0", "0")
    assert rows(transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", 0)) == []
    producer.commit_transaction(30)
    wait_for(lambda: rows(transactions("describe", "--transactional-id", group))[0][4] == "CompleteCommit")
    (idle,) = rows(transactions("describe-producers", "--topic", topic, "--partition", 0))
    assert idle[5] == "None"


def test_an_operator_ends_a_transaction_by_its_id(
    transactions: Command, producer: confluent_kafka.Producer, group: str, topic: str
) -> None:
    begin(producer, topic)
    ended = transactions("forceTerminateTransaction", "--transactionalId", group)
    assert ended.status == "0", ended
    wait_for(lambda: rows(transactions("describe", "--transactional-id", group))[0][4] in ENDED)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(30)


@pytest.fixture
def unverified(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker that takes transactional records without asking the coordinator, as brokers did before KIP-890."""
    folder = tmp_path_factory.mktemp("unverified")
    settings = {**SETTINGS, "transaction.partition.verification.enable": "false"}
    with type(server)(folder, settings) as broker:
        assert isinstance(broker, BrokerProcess | ApacheKafka)
        yield broker


def test_a_hanging_transaction_is_found_and_aborted(unverified: Server, tools: ToolRunner) -> None:
    servers = unverified.bootstrap_servers
    topic = "hung"
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "somebody"})
    producer.init_transactions(60)
    begin(producer, topic)
    producer.commit_transaction(30)
    transactions = command(servers, tools)

    def described() -> list[str]:
        (row,) = rows(transactions("describe", "--transactional-id", "somebody"))
        return row

    wait_for(lambda: described()[4] == "CompleteCommit", "every partition has the marker of the commit")
    _, _, producer_id, epoch, *_ = described()
    write_late(unverified.port, topic, int(producer_id), int(epoch))
    (hanging,) = rows(transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", 0))
    assert hanging[:4] == [topic, "0", producer_id, epoch]
    start_offset = hanging[5]
    (active,) = rows(transactions("describe-producers", "--topic", topic, "--partition", 0))
    assert active[5] == start_offset
    aborted = transactions("abort", "--topic", topic, "--partition", 0, "--start-offset", start_offset)
    assert aborted.status == "0", aborted
    assert rows(transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", 0)) == []
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"v"
    after = confluent_kafka.Producer({"bootstrap.servers": servers})
    after.produce(topic, b"w")
    assert after.flush(30) == 0
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"w", "the aborted record was delivered"
    consumer.close()


def write_late(port: int, topic: str, producer_id: int, epoch: int) -> None:
    """Write a record of a transaction that is over, as a request that the network held back."""
    record = Record(offset=0, timestamp=1_700_000_000_000, key=None, value=b"late", headers=[])
    sequence = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 1, "is_transactional": True}
    batch = write_batch([record], **sequence)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id="somebody", acks=-1, timeout_ms=30_000, topic_data=[data])
    with BlockingWire(port) as wire:
        (answer,) = wire.ask(request, 9).responses[0].partition_responses
        assert answer.error_code == 0, answer
