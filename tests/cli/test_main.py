"""The command line: what it says when it is called wrongly, and that it imports only what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec

import click
import pytest

from tailrace.cli.main import COMMANDS, LazyGroup, main, tailrace


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tailrace {version('tailrace')}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_found_under_its_name(name: str) -> None:
    assert find_spec(f"tailrace.cli.{name}") is not None
    assert isinstance(tailrace, LazyGroup)
    command = tailrace.get_command(click.Context(tailrace), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sevre"], "tailrace: there is no command sevre; is serve meant? (try tailrace --help)\n"),
        (["xyz"], "tailrace: there is no command xyz (try tailrace --help)\n"),
        (
            ["serve", "--port", "70000"],
            "tailrace serve: Invalid value for '--port': 70000 is not in the range 0<=x<=65535. "
            "(try tailrace serve --help)\n",
        ),
        (
            ["serve", "--set", "num.partitions=none"],
            "tailrace serve: num.partitions=none (from --set): expected an integer of 32 bits, at least 1 "
            "(try tailrace serve --help)\n",
        ),
        (
            ["serve", "--set", "num.partitions"],
            "tailrace serve: --set=num.partitions: expected key=value (try tailrace serve --help)\n",
        ),
    ],
)
def test_a_wrong_call_gets_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err == message
    assert captured.out == ""


def test_a_wrong_option_gets_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--xyz"]) == 2
    assert re.fullmatch(r"tailrace: No such option.*--xyz.* \(try tailrace --help\)\n", capsys.readouterr().err)


def test_a_call_without_a_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "serve" in capsys.readouterr().err


def test_ctrl_c_in_a_command_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    def command_of(self: LazyGroup, ctx: click.Context, cmd_name: str) -> click.Command:
        return interrupted

    monkeypatch.setattr(LazyGroup, "get_command", command_of)
    assert main(["serve"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_starting_a_broker_does_not_import_what_draws_tables() -> None:
    code = "import sys, tailrace.cli.main, tailrace.cli.serve; print({'rich', 'construct'} & sys.modules.keys())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "set()\n"
