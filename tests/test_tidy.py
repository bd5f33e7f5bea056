"""The rules of the house that no linter knows: how long a file and a function may be, what may touch what."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 500
FUNCTION_LINES_MAX = 70


def python_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


FILES = python_files()
PACKAGE = [path for path in FILES if path.is_relative_to(ROOT / "tailrace")]
TESTS = [path for path in FILES if path.is_relative_to(ROOT / "tests")]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def matching_lines(files: list[Path], pattern: str) -> list[str]:
    expression = re.compile(pattern)
    return [
        f"{named(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if expression.search(line)
    ]


def test_the_files_were_found() -> None:
    assert len(PACKAGE) > 50
    assert TESTS


def test_no_file_is_longer_than_one_idea() -> None:
    assert [named(path) for path in FILES if len(path.read_text().splitlines()) > LINES_MAX] == []


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in FILES
        for node in functions(path)
        if (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_says_what_lives_in_it() -> None:
    silent = [named(path) for path in FILES if path.read_text() and not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


@pytest.mark.parametrize("name", ["utils", "util", "common", "helpers", "misc"])
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    assert [named(path) for path in FILES if name in (path.stem, path.parent.name)] == []


def test_nothing_is_left_for_later() -> None:
    assert matching_lines(PACKAGE, r"\b(TODO|FIXME|XXX|HACK)\b|\bNotImplementedError\b") == []


def test_no_error_is_dropped_without_a_word() -> None:
    dropped = [
        f"{named(path)}:{node.lineno}"
        for path in PACKAGE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
    ]
    assert dropped == []


def test_tests_wait_for_conditions_and_do_not_sleep() -> None:
    here = [path for path in TESTS if path != Path(__file__)]
    assert matching_lines(here, r"\btime\.sleep\(|asyncio\.sleep\((?!0\))") == []


def test_every_test_asserts_something() -> None:
    speaks = re.compile(r"\bassert|raises|\.fail\(|check|expect|verify")
    mute = [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in TESTS
        for node in functions(path)
        if node.name.startswith("test_") and not speaks.search(ast.get_source_segment(path.read_text(), node) or "")
    ]
    assert mute == []


def test_time_is_asked_of_the_clock_only() -> None:
    allowed = {"tailrace/clock.py"}
    inner = [
        path
        for path in PACKAGE
        if path.relative_to(ROOT).parts[1] in ("broker", "storage", "protocol", "client", "settings")
        and named(path) not in allowed
    ]
    assert matching_lines(inner, r"^\s*(import time|from time import|from datetime import)\b") == []


def test_storage_touches_the_disk_in_one_module() -> None:
    inner = [path for path in PACKAGE if path.parent.name == "storage" and path.name != "disk.py"]
    assert (
        matching_lines(
            inner,
            r"^\s*import (mmap|shutil|fcntl)\b|\bopen\(.*[\"'][rwa]b?\+?[\"']"
            r"|\bos\.(open|pwrite|fsync|fdatasync|rename|unlink)\b",
        )
        == []
    )


def test_no_path_of_a_machine_is_written_down() -> None:
    assert matching_lines(FILES, r"[\"'(\s]/(work|home|root|Users)/\w") == []


@pytest.mark.parametrize("name", ["broker", "protocol", "client", "storage"])
def test_the_links_at_the_root_are_relative(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert str(link.readlink()) == f"tailrace/{name}"
