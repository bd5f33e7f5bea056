"""The checksum: the wheel's own function, found without its package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

import crc32c as package
import pytest

from tailrace.protocol import checksum


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(range(256)) * 33])
def test_it_is_the_packages_function(data: bytes) -> None:
    assert checksum.crc32c(data) == checksum.crc32c(memoryview(data)) == package.crc32c(data)


def test_the_check_value_of_the_standard() -> None:
    assert checksum.crc32c(b"123456789") == 0xE3069283


def test_a_wheel_with_another_layout_is_imported_as_everybody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = PathFinder.find_spec

    def without_extension(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
        return None if path else find_spec(name)

    monkeypatch.setattr(PathFinder, "find_spec", without_extension)
    assert checksum.load() is package.crc32c


def test_no_metadata_is_read_for_it() -> None:
    code = "import sys, tailrace.protocol.checksum; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
