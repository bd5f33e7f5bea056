"""docs/settings.md is what the declarations give, and what it says of each setting's effect is so."""

from __future__ import annotations

import re
from pathlib import Path

import tailrace
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.document import document
from tailrace.settings.log_config import LogConfig

ROOT = Path(__file__).parent.parent.parent
PACKAGE = Path(tailrace.__file__).parent

WITHOUT_A_BROKER = ("client", "spark", "cli", "testing")
ONLY_READ_TO_BE_CHECKED = ("broker_rules.py", "document.py", "alter_config.py")


def attributes_in_use() -> set[str]:
    """Every `.name` in the code that could be the reading of a setting."""
    used: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        folder = path.relative_to(PACKAGE).parts[0]
        is_only_checked = folder == "settings" and (
            path.name in ONLY_READ_TO_BE_CHECKED or path.name == "client_config.py" or path.parent.name == "client"
        )
        if folder not in WITHOUT_A_BROKER and not is_only_checked:
            used.update(re.findall(r"\.([a-z][a-z0-9]*(?:_[a-z0-9]+)+|listeners|preallocate)\b", path.read_text()))
    return used


def test_the_document_is_current() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == document(), "run: python -m tailrace.settings.document > docs/settings.md"


def test_a_setting_acts_where_the_code_reads_it_and_nowhere_else() -> None:
    used = attributes_in_use()
    through_topics = {key for s in LogConfig.settings.values() if s.name in used for key in s.synonyms}
    broker = {s.key for s in BrokerConfig.settings.values() if s.name in used} | through_topics
    topic = {s.key for s in LogConfig.settings.values() if s.name in used}
    assert {s.key for s in BrokerConfig.settings.values() if s.acts} == broker
    assert {s.key for s in LogConfig.settings.values() if s.acts} == topic
