"""Writes the pages of the documentation that come from the code; tests hold them to it. Run by `make docs`."""

from __future__ import annotations

from pathlib import Path

from tailrace.broker.coverage import coverage_page
from tailrace.settings.document import document

HERE = Path(__file__).parent
PAGES = {"protocol-coverage.md": coverage_page, "settings.md": document}

for name, page in PAGES.items():
    (HERE / name).write_text(page(), encoding="utf-8")
