"""The page of served APIs says what the code does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tailrace.broker.coverage import coverage_page
from tailrace.broker.served_apis import SERVED_APIS
from tailrace.protocol.api_keys import ApiKey

PAGE = Path(__file__).parent.parent.parent / "docs" / "protocol-coverage.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == coverage_page(), "run: python -m tailrace.broker.coverage > docs/protocol-coverage.md"


@pytest.mark.parametrize("key", SERVED_APIS, ids=lambda key: key.api.module_name)
def test_what_is_advertised_has_a_handler(key: ApiKey) -> None:
    handler = import_module(f"tailrace.broker.handlers.{key.api.module_name}")
    assert callable(handler.handle)
    assert handler.__doc__.startswith(f"{key.api.name}: v"), "a handler begins with its range and notes a version"
