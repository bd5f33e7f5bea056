"""`tailrace serve` as a user meets it: a real process, its one line, its signals and its complaints."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tailrace.cli.serve import with_port
from tailrace.settings.sources import load_broker_config

READY = re.compile(
    r"Tailrace listens on PLAINTEXT://(?P<host>\S*):(?P<port>\d+) "
    r"\(clients are told (?P<told>\S+:\d+); metrics on (?P<metrics>\S+); "
    r"data in (?P<data>.+); started in (?P<seconds>\d+\.\d\d) s\)\n"
)

Serve = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A function that starts a broker in a folder of the test's, on free ports unless told otherwise."""
    started: list[subprocess.Popen[str]] = []
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("KAFKA_", "TAILRACE_"))}

    def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tailrace.cli.main", "serve", "--metrics-port", "0", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**environment, **variables}, stdout=pipe, stderr=pipe, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> re.Match[str]:
    assert process.stdout is not None
    line = process.stdout.readline()
    match = READY.fullmatch(line)
    assert match is not None, line + (process.communicate()[1] if not line else "")
    return match


@pytest.mark.slow
def test_one_line_says_where_it_listens_and_there_it_answers(serve: Serve, tmp_path: Path) -> None:
    process = serve("--port", "0", "--set", "listeners=PLAINTEXT://127.0.0.1:9092")
    line = ready(process)
    assert (line["host"], line["data"]) == ("127.0.0.1", str(tmp_path / "tailrace-data"))
    with socket.create_connection(("127.0.0.1", int(line["port"])), timeout=5) as connection:
        # ApiVersions v0, correlation id 7, no client id
        connection.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")
        assert connection.recv(8)[4:8] == b"\x00\x00\x00\x07"
    with urlopen(line["metrics"], timeout=5) as metrics:
        assert b"kafka_brokers" in metrics.read()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly(serve: Serve, number: signal.Signals, exit_code: int) -> None:
    process = serve("--port", "0")
    ready(process)
    process.send_signal(number)
    _, complaints = process.communicate(timeout=20)
    assert process.returncode == exit_code
    assert "Traceback" not in complaints


@pytest.mark.slow
def test_a_second_broker_on_the_same_data_is_refused_in_one_line(serve: Serve) -> None:
    ready(serve("--port", "0"))
    second = serve("--port", "0", "--log-level", "error")
    out, complaints = second.communicate(timeout=20)
    assert (second.returncode, out) == (1, "")
    assert complaints.startswith("tailrace: the broker can't start: ")
    assert complaints.count("\n") == 1


@pytest.mark.slow
def test_a_port_in_use_is_said_in_one_line(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = serve("--set", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--log-level", "error")
        _, complaints = process.communicate(timeout=20)
    assert process.returncode == 1
    assert str(port) in complaints
    assert complaints.count("\n") == 1


@pytest.mark.slow
def test_an_unknown_setting_is_named_and_the_broker_starts(serve: Serve) -> None:
    process = serve("--port", "0", "--set", "num.partition=3", KAFKA_LOG_ROLL_HOUR="1")
    ready(process)
    process.terminate()
    complaints = process.communicate(timeout=20)[1]
    assert "unknown setting num.partition (--set) is ignored; is num.partitions meant?" in complaints
    assert "unknown setting log.roll.hour (environment variable KAFKA_LOG_ROLL_HOUR)" in complaints


def test_a_missing_file_is_said_in_one_line(serve: Serve) -> None:
    process = serve("--config", "no-such.properties")
    _, complaints = process.communicate(timeout=20)
    assert process.returncode == 2
    assert complaints.count("\n") == 1
    assert "no-such.properties" in complaints


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"listeners": "PLAINTEXT://:7"}),
        (
            {"advertised.listeners": "PLAINTEXT://example.org:9092"},
            {"listeners": "PLAINTEXT://:7", "advertised.listeners": "PLAINTEXT://example.org:7"},
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a-proxy:5555"},
            {"listeners": "PLAINTEXT://:7", "advertised.listeners": "PLAINTEXT://a-proxy:5555"},
        ),
        (
            {
                "listeners": "PLAINTEXT://[::1]:9092,SSL://:9094,CONTROLLER://:9093",
                "controller.listener.names": "CONTROLLER",
            },
            {"listeners": "PLAINTEXT://[::1]:7,SSL://:9094"},
        ),
    ],
)
def test_a_port_moves_the_first_listener(given: dict[str, str], expected: dict[str, str]) -> None:
    loaded = load_broker_config(flags=[(key, text, "given") for key, text in given.items()])
    assert dict(with_port(loaded, 7)) == expected
