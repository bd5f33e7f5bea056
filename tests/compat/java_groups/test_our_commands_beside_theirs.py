"""`tailrace groups` and `tailrace transactions` say and do what Kafka's own tools do, on Tailrace and on Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from tailrace.testing.apache_kafka import unavailable
from tests.cli.command import Run, command_for
from tests.cli.command import rows as our_rows
from tests.compat.conftest import Server
from tests.compat.java_groups.java_process import JavaProcess
from tests.compat.java_groups.test_consumer_group_command import (  # noqa: F401 - fixtures
    COMMITTED,
    COUNT,
    FIRST_TIMESTAMP_MS,
    Command,
    empty_group,
    groups,
    rows,
    topic,
    wire,
)
from tests.compat.java_groups.test_transactions_command import (  # noqa: F401 - fixtures
    begin,
    command,
    producer,
    tools,
    transactions,
    unverified,
    write_late,
)
from tests.compat.java_groups.test_transactions_command import rows as transaction_rows
from tests.compat.java_tools.tool_runner import ToolRunner
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]


@pytest.fixture
def run(servers: str, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_for(servers, capsys)


def test_a_group_without_members_looks_the_same(
    run: Run,
    groups: Command,  # noqa: F811
    empty_group: str,  # noqa: F811
) -> None:
    assert our_rows(run("groups", "describe", empty_group)) == sorted(
        rows(groups("--describe", "--group", empty_group))
    )
    (ours,) = our_rows(run("groups", "describe", empty_group, "--state"))
    (theirs,) = rows(groups("--describe", "--group", empty_group, "--state"))
    assert (ours[0], ours[5], ours[6]) == (theirs[0], *theirs[-2:])
    listed = {(row[0], row[1], row[3]) for row in our_rows(run("groups", "list"))}
    assert {tuple(row) for row in rows(groups("--list", "--state", "--type"))} <= listed


FORMS = [
    ["--to-earliest"],
    ["--to-latest"],
    ["--to-current"],
    ["--to-offset", "4"],
    ["--to-offset", "99"],
    ["--shift-by", "2"],
    ["--shift-by", "-4"],
    ["--by-duration", "PT1M"],
    ["--to-datetime", "2023-11-14T22:13:26.500Z"],
    ["--to-datetime", "2023-11-14T22:13:26.500"],
]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_offsets_would_be_reset_to_the_same(
    run: Run,
    groups: Command,  # noqa: F811
    empty_group: str,  # noqa: F811
    form: list[str],
) -> None:
    assert FIRST_TIMESTAMP_MS == 1_700_000_000_000, "the times above are between two records"
    ours = our_rows(run("groups", "reset-offsets", empty_group, "--all-topics", *form))
    theirs = rows(groups("--reset-offsets", "--group", empty_group, "--all-topics", *form, "--dry-run"))
    assert [[*row[:3], row[4]] for row in ours] == sorted(theirs)
    assert [int(row[3]) for row in ours] == list(COMMITTED.values())


def test_each_executes_what_the_other_exported(
    run: Run,
    groups: Command,  # noqa: F811
    empty_group: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    file = tmp_path / "plan.csv"
    arguments = ["--all-topics", "--shift-by", "1"]
    file.write_text(run("groups", "reset-offsets", empty_group, *arguments, "--export")[1])
    ran = groups("--reset-offsets", "--group", empty_group, "--from-file", file, "--execute")
    assert ran.status == "0", ran
    file.write_text(groups("--reset-offsets", "--group", empty_group, *arguments, "--dry-run", "--export").out)
    done = our_rows(run("groups", "reset-offsets", empty_group, "--from-file", file, "--execute"))
    assert [int(row[4]) for row in done] == [offset + 2 for offset in COMMITTED.values()]
    described = rows(groups("--describe", "--group", empty_group))
    assert sorted(int(row[5]) for row in described) == sorted(COUNT - offset - 2 for offset in COMMITTED.values())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_looks_the_same(
    run: Run,
    groups: Command,  # noqa: F811
    servers: str,
    group: str,
    topic: str,  # noqa: F811
    tmp_path: Path,
    protocol: str,
) -> None:
    arguments = ["--session-timeout", "6000"] if protocol == "classic" else ["--group-protocol", "consumer"]
    where = ["--bootstrap-server", servers, "--topic", topic, "--group-id", group]
    with JavaProcess(tmp_path, "org.apache.kafka.tools.VerifiableConsumer", *where, *arguments) as member:
        member.wait_for_event("offsets_committed")
        ours = our_rows(run("groups", "describe", group))
        assert ours == sorted(rows(groups("--describe", "--group", group)))
        (our_member,) = our_rows(run("groups", "describe", group, "--members"))
        (their_member,) = rows(groups("--describe", "--group", group, "--members"))
        assert [our_member[0], our_member[1], our_member[3], our_member[4], our_member[6]] == their_member
        (our_state,) = our_rows(run("groups", "describe", group, "--state"))
        (their_state,) = rows(groups("--describe", "--group", group, "--state"))
        assert [our_state[0], our_state[3], f"({our_state[2]})", *our_state[4:7]] == their_state
        code, _, err = run("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
        assert (code, f"{group}: the group is Stable" in err) == (1, True)
        assert "NON_EMPTY_GROUP" in run("groups", "delete", group)[2]
        assert member.stop() in (0, 143)
    wait_for(lambda: our_rows(run("groups", "describe", group, "--state"))[0][5] == "Empty")
    our_rows(run("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute"))
    assert {row[3] for row in rows(groups("--describe", "--group", group))} == {"0"}
    assert run("groups", "delete-offsets", group, "--topic", f"{topic}:0")[0] == 0
    assert run("groups", "delete", group)[0] == 0
    assert f"Group {group} not found." in groups("--describe", "--group", group).out


def test_a_transaction_looks_the_same(
    run: Run,
    transactions: Callable[..., object],  # noqa: F811
    producer: confluent_kafka.Producer,  # noqa: F811
    group: str,
    make_topic: Callable[..., str],
) -> None:
    name = make_topic(1)
    begin(producer, name)
    listed = [row for row in transaction_rows(transactions("list")) if row[0] == group]  # type: ignore[arg-type]
    assert [row for row in our_rows(run("transactions", "list")) if row[0] == group] == listed
    (theirs,) = transaction_rows(transactions("describe", "--transactional-id", group))  # type: ignore[arg-type]
    (ours,) = our_rows(run("transactions", "describe", group))
    assert [ours[1], ours[0], *ours[2:6]] == theirs[:6]
    assert ours[8] == f"{name}:0"
    where = ("--topic", name, "--partition", 0)
    (theirs,) = transaction_rows(transactions("describe-producers", *where))  # type: ignore[arg-type]
    (ours,) = our_rows(run("transactions", "describe-producers", *where))
    assert [*ours[:2], ours[3], ours[5]] == [*theirs[:2], theirs[3], theirs[5]]
    assert run("transactions", "find-hanging", "--topic", name, "--max-transaction-timeout", 0) == (0, "", "")
    assert run("transactions", "force-terminate", group)[0] == 0
    wait_for(lambda: our_rows(run("transactions", "describe", group))[0][4] in ("CompleteAbort", "Empty"))
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(30)


def test_the_same_transaction_hangs_and_either_tool_ends_it(
    unverified: Server,  # noqa: F811
    tools: ToolRunner,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers, name = unverified.bootstrap_servers, "hung"
    run, theirs = command_for(servers, capsys), command(servers, tools)
    late = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "somebody"})
    late.init_transactions(60)
    begin(late, name)
    late.commit_transaction(30)
    wait_for(lambda: our_rows(run("transactions", "describe", "somebody"))[0][4] == "CompleteCommit")
    (described,) = our_rows(run("transactions", "describe", "somebody"))
    write_late(unverified.port, name, int(described[2]), int(described[3]))
    find = ("find-hanging", "--topic", name, "--max-transaction-timeout", 0)
    (ours,) = our_rows(run("transactions", *find))
    (hanging,) = transaction_rows(theirs(*find))
    assert ours[:6] == hanging[:6]
    abort = run("transactions", "abort", "--topic", name, "--partition", 0, "--start-offset", ours[5])
    assert abort == (0, f"aborted {name}-0\n", "")
    assert transaction_rows(theirs(*find)) == our_rows(run("transactions", *find)) == []
