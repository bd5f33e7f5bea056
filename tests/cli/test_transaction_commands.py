"""`tailrace transactions` against a real broker in a process of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import confluent_kafka
import pytest

from tailrace.cli.main import main
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.testing.broker_process import BrokerProcess
from tests.broker.transactions.blocking_wire import BlockingWire
from tests.cli.command import Run, command_for, rows
from tests.waiting import wait_for

pytestmark = pytest.mark.xdist_group("transaction_commands")

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    # Late records of a transaction that is over are taken, as by brokers before KIP-890: only so can one hang.
    "transaction.partition.verification.enable": "false",
}

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS) as process:
        yield process


@pytest.fixture
def run(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_for(broker.bootstrap_servers, capsys)


@pytest.fixture
def topic(run: Run) -> str:
    name = f"t{next(_numbers)}"
    assert run("topics", "create", name)[0] == 0
    return name


@pytest.fixture
def transactional_id() -> str:
    return f"id-{next(_numbers)}"


@pytest.fixture
def producer(broker: BrokerProcess, transactional_id: str, topic: str) -> confluent_kafka.Producer:
    """A producer with an open transaction that has written one record."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    assert producer.flush(30) == 0
    return producer


def described(run: Run, transactional_id: str) -> list[str]:
    (row,) = rows(run("transactions", "describe", transactional_id))
    return row


def test_a_transaction_is_listed_and_described(
    run: Run, producer: confluent_kafka.Producer, transactional_id: str, topic: str
) -> None:
    listed = {row[0]: row for row in rows(run("transactions", "list", "--state", "Ongoing"))}
    assert listed[transactional_id][3] == "Ongoing"
    producer_id = listed[transactional_id][2]
    by_id = rows(run("transactions", "list", "--producer-id", producer_id, "--pattern", f"{transactional_id}|none"))
    assert by_id == [listed[transactional_id]]
    assert run("transactions", "list", "--longer-than-ms", 3_600_000) == (0, "", "")
    row = described(run, transactional_id)
    assert row[:3] == [transactional_id, "1", producer_id]
    assert (row[4], row[5], row[8]) == ("Ongoing", "60000", f"{topic}:0")
    assert int(row[7]) >= 0
    (active,) = rows(run("transactions", "describe-producers", "--topic", topic, "--partition", 0))
    assert (active[0], active[1], active[3], active[5]) == (producer_id, row[3], "0", "0")
    producer.commit_transaction(30)
    wait_for(lambda: described(run, transactional_id)[4] == "CompleteCommit")
    assert described(run, transactional_id)[6:] == ["-", "-", "-"]
    (idle,) = rows(run("transactions", "describe-producers", "--topic", topic, "--partition", 0, "--broker-id", 1))
    assert idle[5] == "-"


def test_a_transaction_is_ended_by_force(run: Run, producer: confluent_kafka.Producer, transactional_id: str) -> None:
    ended = run("transactions", "force-terminate", transactional_id)
    assert ended == (0, f"terminated {transactional_id}\n", "")
    wait_for(lambda: described(run, transactional_id)[4] in ("CompleteAbort", "Empty"))
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(30)


def write_late(port: int, topic: str, producer_id: int, epoch: int) -> None:
    """Write a record of a transaction that is over, as a request that the network held back."""
    record = Record(offset=0, timestamp=1_700_000_000_000, key=None, value=b"late", headers=[])
    sequence = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 1, "is_transactional": True}
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=write_batch([record], **sequence))]
    )
    with BlockingWire(port) as wire:
        request = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=30_000, topic_data=[data])
        (answer,) = wire.ask(request, 9).responses[0].partition_responses
        assert answer.error_code == 0, answer


@pytest.mark.parametrize("by_offset", [True, False])
def test_a_transaction_that_hangs_is_found_and_aborted(
    run: Run,
    broker: BrokerProcess,
    producer: confluent_kafka.Producer,
    transactional_id: str,
    topic: str,
    by_offset: bool,
) -> None:
    producer.commit_transaction(30)
    wait_for(lambda: described(run, transactional_id)[4] == "CompleteCommit")
    row = described(run, transactional_id)
    write_late(broker.port, topic, int(row[2]), int(row[3]))
    find = ("transactions", "find-hanging", "--max-transaction-timeout", 0)
    (hanging,) = rows(run(*find, "--topic", topic))
    assert hanging[:4] == [topic, "0", row[2], row[3]]
    assert (hanging[5], hanging[6]) == ("2", "2023-11-14T22:13:20.000Z")
    assert rows(run(*find, "--broker-id", 1)) == [hanging]
    assert rows(run(*find, "--topic", topic, "--partition", 0)) == [hanging]
    where = ("transactions", "abort", "--topic", topic, "--partition", 0)
    assert run(*where, "--start-offset", 1) == (1, "", f"tailrace: no transaction is open at offset 1 of {topic}-0\n")
    epochs = ("--producer-epoch", hanging[3], "--coordinator-epoch", hanging[4])
    how = ("--start-offset", 2) if by_offset else ("--producer-id", hanging[2], *epochs)
    assert run(*where, *how) == (0, f"aborted {topic}-0\n", "")
    assert run(*find, "--topic", topic) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("find-hanging",), "give --topic or --broker-id"),
        (("find-hanging", "--broker-id", "1", "--partition", "0"), "--partition needs --topic"),
        (("abort", "--topic", "t", "--partition", "0"), "give --start-offset, or --producer-id"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"), "give --start-offset, or --producer-id"),
        (("abort", "--topic", "t", "--partition", "0", "--start-offset", "1", "--producer-id", "1"), "give --start"),
    ],
)
def test_wrong_arguments_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["transactions", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_what_is_not_there_is_said(run: Run) -> None:
    code, _, err = run("transactions", "describe", "nobody")
    assert (code, err.startswith("tailrace: nobody: TRANSACTIONAL_ID_NOT_FOUND")) == (1, True)
    code, _, err = run("transactions", "find-hanging", "--topic", "nope")
    assert (code, err) == (1, "tailrace: UNKNOWN_TOPIC_OR_PARTITION: topic nope\n")
    code, _, err = run("transactions", "describe-producers", "--topic", "nope", "--partition", 0)
    assert (code, err) == (1, "tailrace: UNKNOWN_TOPIC_OR_PARTITION: topic nope\n")
