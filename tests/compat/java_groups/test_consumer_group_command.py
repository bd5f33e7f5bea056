"""What kafka-consumer-groups.sh says of groups and does to their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.testing.apache_kafka import unavailable
from tests.broker.transactions.blocking_wire import BlockingWire
from tests.compat.conftest import Server
from tests.compat.java_groups.java_process import JavaProcess
from tests.compat.java_tools.tool_runner import Ran, ToolRunner
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

COUNT = 10
PARTITIONS = 2
FIRST_TIMESTAMP_MS = 1_700_000_000_000
COMMITTED = {0: 3, 1: 6}

Command = Callable[..., Ran]


@pytest.fixture(scope="module")
def groups(servers: str) -> Iterator[Command]:
    with ToolRunner() as tools:
        program = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        yield lambda *arguments: tools.run(program, "--bootstrap-server", servers, *map(str, arguments), timeout_s=60)


@pytest.fixture
def topic(servers: str, make_topic: Callable[..., str]) -> str:
    """A topic whose records are a second apart, from `FIRST_TIMESTAMP_MS` on."""
    name = make_topic(PARTITIONS, retention_ms="-1")
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(COUNT):
        for partition in range(PARTITIONS):
            producer.produce(name, b"v", partition=partition, timestamp=FIRST_TIMESTAMP_MS + 1000 * number)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def wire(server: Server) -> Iterator[BlockingWire]:
    with BlockingWire(server.port) as wire:
        yield wire


@pytest.fixture
def empty_group(wire: BlockingWire, group: str, topic: str) -> str:
    """A group without members that has committed `COMMITTED`."""
    wire.ask(FindCoordinatorRequest(key=group), 3)  # Apache Kafka makes the topic of the offsets when it is asked
    offsets = [
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        for partition, offset in COMMITTED.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=offsets)])

    def is_committed() -> bool:
        (answered,) = wire.ask(request, 8).topics
        return all(partition.error_code == 0 for partition in answered.partitions)

    wait_for(is_committed, "the coordinator has loaded its partition", 60)
    return group


def rows(ran: Ran) -> list[list[str]]:
    """The cells of the table that was printed, without its head."""
    lines = [line.split() for line in ran.out.splitlines() if line.strip()]
    heads = [number for number, line in enumerate(lines) if line[0] in ("GROUP", "TOPIC")]
    return lines[heads[0] + 1 :] if heads else []


def committed(wire: BlockingWire, group: str) -> dict[int, int]:
    (answered,) = wire.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8).groups
    assert answered.error_code == 0
    return {p.partition_index: p.committed_offset for topic in answered.topics for p in topic.partitions}


RESETS = {
    "to-earliest": (["--to-earliest"], {0: 0, 1: 0}),
    "to-latest": (["--to-latest"], {0: 10, 1: 10}),
    "to-current": (["--to-current"], COMMITTED),
    "to-offset": (["--to-offset", "4"], {0: 4, 1: 4}),
    "to-offset-beyond-the-end": (["--to-offset", "99"], {0: 10, 1: 10}),
    "shift-by": (["--shift-by", "2"], {0: 5, 1: 8}),
    "shift-by-back": (["--shift-by", "-4"], {0: 0, 1: 2}),
    "by-duration": (["--by-duration", "PT1M"], {0: 10, 1: 10}),
}


@pytest.mark.parametrize("form", list(RESETS))
def test_offsets_are_reset_and_a_dry_run_only_says_how(
    groups: Command, wire: BlockingWire, empty_group: str, topic: str, form: str
) -> None:
    arguments, expected = RESETS[form]
    table = [[empty_group, topic, str(partition), str(offset)] for partition, offset in expected.items()]
    reset = ["--reset-offsets", "--group", empty_group, "--topic", topic, *arguments]
    for mode, outcome in (("--dry-run", COMMITTED), ("--execute", expected)):
        ran = groups(*reset, mode)
        assert (ran.status, sorted(rows(ran))) == ("0", table), ran
        assert committed(wire, empty_group) == outcome


def test_offsets_are_reset_to_a_time(groups: Command, wire: BlockingWire, empty_group: str, topic: str) -> None:
    moment = datetime.fromtimestamp((FIRST_TIMESTAMP_MS + 6500) / 1000, UTC)
    when = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    ran = groups("--reset-offsets", "--group", empty_group, "--all-topics", "--to-datetime", when, "--execute")
    assert ran.status == "0", ran
    assert committed(wire, empty_group) == {0: 7, 1: 7}


def test_one_partition_is_reset(groups: Command, wire: BlockingWire, empty_group: str, topic: str) -> None:
    ran = groups("--reset-offsets", "--group", empty_group, "--topic", f"{topic}:1", "--to-earliest", "--execute")
    assert rows(ran) == [[empty_group, topic, "1", "0"]], ran
    assert committed(wire, empty_group) == {0: 3, 1: 0}


def test_a_plan_is_exported_and_executed(
    groups: Command, wire: BlockingWire, empty_group: str, topic: str, tmp_path: Path
) -> None:
    plan = groups(
        "--reset-offsets", "--group", empty_group, "--topic", topic, "--shift-by", "1", "--dry-run", "--export"
    )
    assert sorted(plan.out.split()) == [f"{topic},0,4", f"{topic},1,7"], plan
    file = tmp_path / "plan.csv"
    file.write_text(plan.out)
    ran = groups("--reset-offsets", "--group", empty_group, "--from-file", file, "--execute")
    assert ran.status == "0", ran
    assert committed(wire, empty_group) == {0: 4, 1: 7}


def test_a_group_without_members_is_described_and_deleted(groups: Command, empty_group: str, topic: str) -> None:
    described = groups("--describe", "--group", empty_group)
    assert sorted(rows(described)) == [
        [empty_group, topic, str(partition), str(offset), str(COUNT), str(COUNT - offset), "-", "-", "-"]
        for partition, offset in COMMITTED.items()
    ]
    state = groups("--describe", "--group", empty_group, "--state")
    assert rows(state)[0][-2:] == ["Empty", "0"], state
    assert [empty_group, "Empty"] in rows(groups("--list", "--state")), "not listed"
    gone = groups("--delete-offsets", "--group", empty_group, "--topic", f"{topic}:0")
    assert rows(gone) == [[topic, "0", "Successful"]], gone
    assert [row[2] for row in rows(groups("--describe", "--group", empty_group))] == ["1"]
    deleted = groups("--delete", "--group", empty_group)
    assert f"('{empty_group}') was successful" in deleted.out, deleted
    assert empty_group not in groups("--list").out.split()
    assert f"Group {empty_group} not found." in groups("--describe", "--group", empty_group).out


CLASSIC = {"arguments": ["--session-timeout", "6000"], "type": "Classic", "assignor": "range"}
CONSUMER = {"arguments": ["--group-protocol", "consumer"], "type": "Consumer", "assignor": "uniform"}


@pytest.mark.parametrize("kind", [pytest.param(CLASSIC, id="classic"), pytest.param(CONSUMER, id="consumer")])
def test_a_group_with_a_member_is_described_and_left_alone(
    groups: Command, servers: str, group: str, topic: str, tmp_path: Path, kind: dict[str, Any]
) -> None:
    arguments = ["--bootstrap-server", servers, "--topic", topic, "--group-id", group, *kind["arguments"]]
    with JavaProcess(tmp_path, "org.apache.kafka.tools.VerifiableConsumer", *arguments) as member:
        member.wait_for_event("offsets_committed")
        state = rows(groups("--describe", "--group", group, "--state"))
        assert state == [[group, servers, "(1)", kind["assignor"], "Stable", "1"]]
        (who,) = rows(groups("--describe", "--group", group, "--members", "--verbose"))
        assert who[0] == group
        assert who[2] == "/127.0.0.1"
        assert who[4] == str(PARTITIONS), who
        assert f"{topic}:0,1" in who
        offsets = groups("--describe", "--group", group)
        assert {tuple(row[:3]) for row in rows(offsets)} == {(group, topic, "0"), (group, topic, "1")}, offsets
        assert {row[6] for row in rows(offsets)} == {who[1]}
        listed = [row for row in rows(groups("--list", "--state", "stable", "--type", kind["type"])) if row[0] == group]
        assert listed == [[group, kind["type"], "Stable"]]
        reset = groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        assert "the current state is Stable" in reset.out + reset.err, reset
        deleted = groups("--delete", "--group", group)
        assert "The group is not empty." in deleted.out + deleted.err, deleted
        gone = groups("--delete-offsets", "--group", group, "--topic", topic)
        assert "subscribed" in gone.out + gone.err, gone
        assert member.stop() in (0, 143)
    assert rows(groups("--describe", "--group", group, "--state"))[0][-2:] == ["Empty", "0"]
