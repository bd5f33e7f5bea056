"""`tailrace groups` against a real broker in a process of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka
import pytest

from tailrace.cli.main import main
from tailrace.testing.broker_process import BrokerProcess
from tests.cli.command import Run, command_for, rows
from tests.waiting import wait_for

pytestmark = pytest.mark.xdist_group("group_commands")

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "2",
}
COUNT = 10
FIRST_MS = 1_700_000_000_000
COMMITTED = {0: 3, 1: 6}

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS) as process:
        yield process


@pytest.fixture
def run(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_for(broker.bootstrap_servers, capsys)


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    """Two partitions with ten records each, a second apart."""
    assert main(["topics", "create", "t", "--partitions", "2", "--bootstrap-server", broker.bootstrap_servers]) == 0
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(COUNT):
        for partition in range(2):
            producer.produce("t", b"v", partition=partition, timestamp=FIRST_MS + 1000 * number)
    assert producer.flush(30) == 0
    return "t"


@pytest.fixture
def group(broker: BrokerProcess, topic: str) -> str:
    """A group without members that has committed `COMMITTED`."""
    name = f"group-{next(_numbers)}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    offsets = [confluent_kafka.TopicPartition(topic, number, offset) for number, offset in COMMITTED.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return name


def offsets_of(run: Run, group: str) -> dict[int, int]:
    return {int(row[2]): int(row[3]) for row in rows(run("groups", "describe", group))}


def planned(ran: tuple[int, str, str]) -> dict[int, int]:
    return {int(row[2]): int(row[4]) for row in rows(ran)}


def test_a_group_without_members_is_listed_described_and_deleted(run: Run, group: str) -> None:
    assert [group, "Classic", "-", "Empty"] in rows(run("groups", "list"))
    assert [group, "Classic", "-", "Empty"] in rows(run("groups", "list", "--state", "empty", "--type", "classic"))
    assert run("groups", "list", "--state", "Stable") == (0, "", "")
    assert rows(run("groups", "describe", group)) == [
        [group, "t", "0", "3", "10", "7", "-", "-", "-"],
        [group, "t", "1", "6", "10", "4", "-", "-", "-"],
    ]
    (state,) = rows(run("groups", "describe", group, "--state"))
    assert state[:3] + state[4:] == [group, "Classic", "1", "-", "Empty", "0", "-", "-"]
    assert rows(run("groups", "describe", group, "--members")) == []
    assert group in {row[0] for row in rows(run("groups", "describe", "--all"))}
    assert run("groups", "delete-offsets", group, "--topic", "t:1") == (0, "deleted t-1\n", "")
    assert offsets_of(run, group) == {0: 3}
    assert run("groups", "delete", group) == (0, f"deleted {group}\n", "")
    code, out, err = run("groups", "describe", group)
    assert (code, out) == (1, "")
    assert err.startswith(f"tailrace: {group}: GROUP_ID_NOT_FOUND")
    code, _, err = run("groups", "delete", group)
    assert code == 1
    assert "GROUP_ID_NOT_FOUND" in err


def test_what_can_be_described_is_although_another_cannot(run: Run, group: str) -> None:
    code, out, err = run("groups", "describe", "nobody", group)
    assert code == 1
    assert len(out.splitlines()) == 2
    assert "nobody: GROUP_ID_NOT_FOUND" in err


RESETS = {
    "to-earliest": (["--to-earliest"], {0: 0, 1: 0}),
    "to-latest": (["--to-latest"], {0: 10, 1: 10}),
    "to-current": (["--to-current"], COMMITTED),
    "to-offset": (["--to-offset", 4], {0: 4, 1: 4}),
    "beyond-the-end": (["--to-offset", 99], {0: 10, 1: 10}),
    "shift-by": (["--shift-by", 2], {0: 5, 1: 8}),
    "shift-back": (["--shift-by", -4], {0: 0, 1: 2}),
    "by-duration": (["--by-duration", "PT1M"], {0: 10, 1: 10}),
    "by-a-long-duration": (["--by-duration", "P36500D"], {0: 0, 1: 0}),
    "to-datetime": (["--to-datetime", datetime.fromtimestamp(FIRST_MS / 1000 + 6.5, UTC).isoformat()], {0: 7, 1: 7}),
}


@pytest.mark.parametrize("form", list(RESETS))
def test_offsets_are_reset_and_without_execute_only_shown(run: Run, group: str, topic: str, form: str) -> None:
    arguments, expected = RESETS[form]
    reset = ("groups", "reset-offsets", group, "--topic", topic, *arguments)
    assert planned(run(*reset)) == expected
    assert offsets_of(run, group) == COMMITTED
    assert planned(run(*reset, "--execute")) == expected
    assert offsets_of(run, group) == expected


def test_one_partition_or_every_topic_of_the_group_is_reset(run: Run, group: str, topic: str) -> None:
    assert planned(run("groups", "reset-offsets", group, "--topic", "t:1", "--to-earliest", "--execute")) == {1: 0}
    assert offsets_of(run, group) == {0: 3, 1: 0}
    assert planned(run("groups", "reset-offsets", group, "--all-topics", "--to-offset", 8)) == {0: 8, 1: 8}


def test_every_group_is_planned_for(run: Run, group: str, topic: str) -> None:
    plans = rows(run("groups", "reset-offsets", "--all", "--all-topics", "--to-offset", 1))
    assert [row[1:] for row in plans if row[0] == group] == [["t", "0", "3", "1"], ["t", "1", "6", "1"]]


def test_a_group_that_is_not_there_yet_begins_where_it_is_told(run: Run, topic: str) -> None:
    name = f"new-{next(_numbers)}"
    reset = ("groups", "reset-offsets", name, "--topic", topic)
    code, _, err = run(*reset, "--shift-by", 1)
    assert (code, err) == (1, "tailrace: cannot shift what was never committed: t-0, t-1\n")
    assert rows(run(*reset, "--to-current", "--execute")) == [[name, "t", "0", "-", "10"], [name, "t", "1", "-", "10"]]
    assert offsets_of(run, name) == {0: 10, 1: 10}


def test_a_plan_is_exported_and_executed(run: Run, group: str, topic: str, tmp_path: Path) -> None:
    code, plan, _ = run("groups", "reset-offsets", group, "--topic", topic, "--shift-by", 1, "--export")
    assert (code, plan) == (0, "t,0,4\nt,1,7\n")
    file = tmp_path / "plan.csv"
    file.write_text(plan)
    assert planned(run("groups", "reset-offsets", group, "--from-file", file, "--execute")) == {0: 4, 1: 7}
    assert offsets_of(run, group) == {0: 4, 1: 7}
    several = ("groups", "reset-offsets", group, "other", "--topic", topic)
    code, plan, _ = run(*several, "--to-offset", 99, "--export")
    assert plan.splitlines() == [f"{group},t,0,10", f"{group},t,1,10", "other,t,0,10", "other,t,1,10"]
    file.write_text(f"{group},t,0,99\n")
    assert planned(run("groups", "reset-offsets", group, "other", "--from-file", file)) == {0: 10}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t,0\n", "line 1 is not topic,partition,offset: t,0"),
        ("\nt,0,soon\n", "line 2 is not topic,partition,offset"),
        ("g2,t,0,1\n", "line 1 is for group g2, which was not named"),
        ("nope,0,1\n", "UNKNOWN_TOPIC_OR_PARTITION: topic nope"),
        ("t,9,1\n", "topic t has no partition 9"),
    ],
)
def test_a_file_that_is_no_plan_says_where(run: Run, group: str, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    code, out, err = run("groups", "reset-offsets", group, "--from-file", file)
    assert (code, out) == (1, "")
    assert said in err


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_is_described_and_left_alone(
    run: Run, broker: BrokerProcess, topic: str, protocol: str
) -> None:
    name = f"busy-{protocol}"
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": name, "client.id": "reader"}
    consumer = confluent_kafka.Consumer({**settings, "group.protocol": protocol, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(0.1) is not None and len(consumer.assignment()) == 2, "two partitions")
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 4)], asynchronous=False)
        assert [name, protocol.capitalize(), "consumer", "Stable"] in rows(run("groups", "list"))
        (member,) = rows(run("groups", "describe", name, "--members"))
        assert member[0] == name
        assert (member[4], member[6:]) == ("reader", ["2", "t:0,1", "-"])
        assert (member[5] == "-") == (protocol == "classic")
        offsets = rows(run("groups", "describe", name))
        assert [row[:6] for row in offsets] == [[name, "t", "0", "4", "10", "6"], [name, "t", "1", "-", "10", "-"]]
        assert {row[6] for row in offsets} == {member[1]}
        (state,) = rows(run("groups", "describe", name, "--state"))
        assert state[4:7] == ["range" if protocol == "classic" else "uniform", "Stable", "1"]
        code, out, err = run("groups", "reset-offsets", name, "--topic", topic, "--to-earliest", "--execute")
        assert (code, out) == (1, "")
        assert f"{name}: the group is Stable" in err
        assert "NON_EMPTY_GROUP" in run("groups", "delete", name)[2]
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in run("groups", "delete-offsets", name, "--topic", topic)[2]
    finally:
        consumer.close()
    assert rows(run("groups", "describe", name, "--state"))[0][5:7] == ["Empty", "0"]
    reset = run("groups", "reset-offsets", name, "--topic", topic, "--to-earliest", "--execute")
    assert planned(reset) == offsets_of(run, name) == {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe",), "name the groups, or give --all"),
        (("describe", "g", "--all"), "name the groups, or give --all"),
        (("reset-offsets", "g", "--topic", "t"), "give one of --to-earliest, "),
        (("reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest"), "give one of --to-earliest, "),
        (("reset-offsets", "g", "--to-earliest"), "give --topic, or --all-topics"),
        (("reset-offsets", "g", "--topic", "t", "--all-topics", "--to-earliest"), "give --topic, or --all-topics"),
        (("reset-offsets", "g", "--topic", "t:x", "--to-earliest"), "is not TOPIC:0,1,..."),
        (("reset-offsets", "g", "--topic", "t", "--by-duration", "PT"), "is no duration"),
        (("reset-offsets", "g", "--topic", "t", "--to-datetime", "soon"), "is no time"),
        (("list", "--state", "asleep"), "asleep"),
    ],
)
def test_wrong_arguments_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["groups", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
