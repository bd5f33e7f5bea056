"""The worked examples of FORMAT.md are the bytes of the reference log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tailrace.storage
from tests.storage.golden import REFERENCE_LOG

FORMAT = (Path(tailrace.storage.__path__[0]) / "FORMAT.md").read_text()
HEX = re.findall(r"^```hex (\S+) (\d+)\n(.*?)^```$", FORMAT, re.MULTILINE | re.DOTALL)
TEXT = re.findall(r"^```text (\S+)\n(.*?)^```$", FORMAT, re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert (len(HEX), len(TEXT)) == (6, 2)


@pytest.mark.parametrize(("name", "position", "block"), HEX)
def test_bytes_are_the_reference_log_s(name: str, position: str, block: str) -> None:
    shown = b"".join(bytes.fromhex(line.split("  ")[0]) for line in block.splitlines())
    assert (REFERENCE_LOG / name).read_bytes()[int(position) :].startswith(shown)


def test_offsets_ids_and_timestamps_are_what_the_bytes_say() -> None:
    lines = [line.partition("  ") for _, _, block in HEX for line in block.splitlines()]
    numbers = [
        (data, re.search(r"(?:offset|id|sequence number|timestamp|offset|up to) (\d+)$", rest))
        for data, _, rest in lines
    ]
    named = [(data, found[1]) for data, found in numbers if found and len(data) < 24]
    assert len(named) > 10
    assert [str(int(data.replace(" ", ""), 16)) for data, _ in named] == [number for _, number in named]


@pytest.mark.parametrize(("name", "block"), TEXT)
def test_text_is_the_reference_log_s(name: str, block: str) -> None:
    assert (REFERENCE_LOG / name).read_text().rstrip("\n") == block.rstrip("\n")
