"""The commands that talk to a cluster, against a real broker in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.testing.broker_process import BrokerProcess
from tailrace.testing.ports import free_port
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("cluster_commands")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process


@pytest.fixture
def run(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--bootstrap-server", broker.bootstrap_servers])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "lines"
        path.write_text(text)
        return str(path)

    return write


def test_topics_are_created_listed_described_altered_and_deleted(run: Run) -> None:
    assert run("topics", "create", "a1", "a2", "--partitions", "2", "--config", "retention.ms=5000")[:2] == (
        0,
        "created a1\ncreated a2\n",
    )
    code, out, err = run("topics", "create", "a1")
    assert (code, out) == (1, "")
    assert err.startswith("tailrace: a1: TOPIC_ALREADY_EXISTS")
    assert run("topics", "create", "a1", "--if-not-exists")[0] == 0
    assert "a1\t2\t1\n" in run("topics", "list")[1]
    rows = [line.split("\t") for line in run("topics", "describe", "a1")[1].splitlines()]
    assert [row[:2] for row in rows] == [["a1", "0"], ["a1", "1"]]
    assert run("topics", "alter", "a1", "--partitions", "3", "--config", "retention.ms=6000")[0] == 0
    assert len(run("topics", "describe", "a1")[1].splitlines()) == 3
    code, _, err = run("topics", "alter", "a1", "--partitions", "1")
    assert code == 1
    assert "INVALID_PARTITIONS" in err
    assert run("topics", "delete", "a1", "a2")[0] == 0
    assert run("topics", "delete", "a1", "--if-exists")[0] == 0
    code, _, err = run("topics", "delete", "a1")
    assert code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in err


def test_settings_are_shown_and_changed(run: Run) -> None:
    run("topics", "create", "b1")
    assert (
        run("configs", "alter", "topic", "b1", "--set", "retention.ms=5000", "--append", "cleanup.policy=compact")[0]
        == 0
    )
    out = run("configs", "describe", "topic", "b1")[1]
    assert "retention.ms\t5000\ttopic\n" in out
    assert "cleanup.policy\tdelete,compact\ttopic\n" in out
    assert "segment.bytes" not in out
    assert "segment.bytes\t1073741824\tdefault\n" in run("configs", "describe", "topic", "b1", "--all")[1]
    assert run("configs", "alter", "topic", "b1", "--set", "retention.ms=9", "--dry-run")[0] == 0
    assert run("configs", "alter", "topic", "b1", "--delete", "cleanup.policy")[0] == 0
    assert run("configs", "describe", "topic", "b1")[1] == "retention.ms\t5000\ttopic\n"
    code, _, err = run("configs", "alter", "topic", "b1", "--set", "retention.ms=soon")
    assert code == 1
    assert "INVALID_CONFIG" in err
    assert "num.partitions\t1\t" in run("configs", "describe", "broker", "1", "--key", "num.partitions")[1]
    assert "no setting nix" in run("configs", "describe", "topic", "b1", "--key", "nix")[2]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("configs", "describe", "topic", "nope")[2]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_in_every_codec(run: Run, lines: Callable[[str], str], codec: str) -> None:
    topic = f"lines-{codec}"
    text = "".join(f"line {number}\n" for number in range(500))
    code, out, err = run("produce", topic, "--file", lines(text), "--compression", codec)
    assert (code, out) == (0, "")
    assert err.startswith(f"500 records to {topic} in ")
    assert run("consume", topic, "--from-beginning", "--exit-at-end")[1] == text
    assert run("consume", topic, "--partition", "0", "--offset", "498", "--exit-at-end")[1] == "line 498\nline 499\n"
    assert run("consume", topic, "--from-beginning", "--max-messages", "2")[1] == "line 0\nline 1\n"
    assert run("consume", topic, "--from-time", "0", "--max-messages", "1")[1] == "line 0\n"
    assert run("consume", topic, "--timeout-ms", "50")[1] == ""


def test_json_goes_round(run: Run, lines: Callable[[str], str]) -> None:
    run("topics", "create", "json", "--partitions", "3")
    first = '{"key":"k","value":"v","headers":[["h","1"]],"partition":2,"timestamp":1700000000000}'
    text = f'{first}\n{{"value_base64":"/w=="}}\n'
    assert run("produce", "json", "--json", "--file", lines(text))[0] == 0
    out = run("consume", "json", "--from-beginning", "--exit-at-end", "--format", "json")[1]
    records = sorted(map(json.loads, out.splitlines()), key=lambda record: record["timestamp"])
    assert records[0]["partition"] == 2
    assert (records[0]["key"], records[0]["value"], records[0]["headers"]) == ("k", "v", [["h", "1"]])
    assert records[1]["value_base64"] == "/w=="


def test_keys_and_headers_are_written(run: Run, lines: Callable[[str], str]) -> None:
    assert run(
        "produce", "keys", "--key-separator", ":", "--header", "a=b", "--file", lines("k:v:w\nl:\n"), "--quiet"
    ) == (
        0,
        "",
        "",
    )
    arguments = (
        "consume",
        "keys",
        "--from-beginning",
        "--exit-at-end",
        "--format",
        "key-value",
        "--key-separator",
        "|",
    )
    assert run(*arguments)[1] == "k|v:w\nl|\n"


def test_what_cannot_be_written_says_the_line(run: Run, lines: Callable[[str], str], tmp_path: Path) -> None:
    impatient = tmp_path / "impatient.properties"
    impatient.write_text("max.block.ms=500\n")
    code, _, err = run("produce", "wrong", "--json", "--file", lines('{"value":"v"}\n{"valeu":"v"}\n'))
    assert code == 1
    assert err == "tailrace: line 2: no such field: valeu\n"
    arguments = ("produce", "wrong", "--command-config", str(impatient), "--partition", "9", "--file", lines("a\n"))
    code, _, err = run(*arguments)
    assert code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in err
    run("topics", "create", "small", "--config", "max.message.bytes=200")
    code, _, err = run("produce", "small", "--file", lines("x" * 1000 + "\n"))
    assert code == 1
    assert "after 0 records: MESSAGE_TOO_LARGE" in err


def test_what_is_not_there_is_one_line(run: Run) -> None:
    assert run("consume", "nope") == (1, "", "tailrace: there is no topic nope\n")
    code, _, err = run("topics", "describe", "nope")
    assert code == 1
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topics", "create", "bad name"), "is no topic name"),
        (("topics", "create", "t", "--partitions", "0"), "--partitions"),
        (("topics", "create", "t", "--config", "retention.ms"), "is not KEY=VALUE"),
        (("topics", "alter", "t"), "nothing to alter"),
        (("configs", "alter", "topic", "t"), "nothing to alter"),
        (("configs", "describe", "planet", "t"), "planet"),
        (("consume", "t", "--offset", "soon"), "neither an offset"),
        (("consume", "t", "--offset", "5"), "needs one --partition"),
        (("consume", "t", "--from-beginning", "--offset", "earliest"), "exclude each other"),
        (("produce", "t", "--json", "--key-separator", ":"), "--key-separator"),
        (("produce", "t", "--compression", "brotli"), "brotli"),
        (("topics", "list", "--bootstrap-server", "host:port"), "is no address"),
    ],
)
def test_wrong_arguments_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(list(arguments)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_cluster_that_is_not_there_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main(["topics", "list", "--bootstrap-server", f"127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().err == f"tailrace: cannot connect to 127.0.0.1:{port}: connection refused\n"


def test_lines_are_written_as_they_come_and_ctrl_c_ends_it(run: Run, broker: BrokerProcess) -> None:
    run("topics", "create", "live")
    server = ("--bootstrap-server", broker.bootstrap_servers)
    command = [sys.executable, "-m", "tailrace.cli.main"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    reader = subprocess.Popen(
        [*command, "consume", "live", "--from-beginning", *server], stdout=subprocess.PIPE, env=environment
    )
    writer = subprocess.Popen([*command, "produce", "live", *server], stdin=subprocess.PIPE, env=environment)
    try:
        assert writer.stdin is not None
        assert reader.stdout is not None
        for text in (b"first\n", b"second\n"):
            writer.stdin.write(text)
            writer.stdin.flush()
            assert reader.stdout.readline() == text
        for process in (reader, writer):
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 130
    finally:
        for process in (reader, writer):
            process.kill()
            process.wait(10)
