"""Running `tailrace ...` within the test's process, against a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailrace.cli.main import main

Run = Callable[..., tuple[int, str, str]]


def command_for(servers: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command against `servers`, and gives its status, output and complaints."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([*map(str, arguments), "--bootstrap-server", servers])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def rows(ran: tuple[int, str, str]) -> list[list[str]]:
    """Read the table that a command printed; it must have succeeded."""
    code, out, err = ran
    assert (code, err) == (0, "")
    return [line.split("\t") for line in out.splitlines()]
