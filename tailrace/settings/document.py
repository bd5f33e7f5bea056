"""Writes docs/settings.md from the declarations: `python -m tailrace.settings.document > docs/settings.md`.

A test holds the file against what this module gives, so the document can't say something else than the code does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.definition import LONG_MAX, Setting, SettingTable, UpdateMode
from tailrace.settings.log_config import LogConfig

_HEAD = """# Settings

Generated from the declarations in `tailrace/settings/`; regenerate with
`python -m tailrace.settings.document > docs/settings.md`.

Names, types, defaults and ranges are those of Apache Kafka 4.1, and a server.properties of Kafka works as it is. A
broker looks for a setting in its flags (`--set key=value`), then in the environment, then in the file given with
`--config`.
In the environment `log.retention.ms` is `KAFKA_LOG_RETENTION_MS`, as in Kafka's container images (a double underscore
stands for an underscore, a triple one for a dash); `tailrace.metrics.port` is `TAILRACE_METRICS_PORT`.

A setting marked *taken* is read, checked and shown by DescribeConfigs, so that Kafka's files and tools work, and has no
effect on Tailrace. *Changes* says whether a running broker takes a new value: for one broker, for all of them
(cluster-wide, or one), or not at all (read-only).
"""


def document() -> str:
    """Give the whole document."""
    parts = [_HEAD, "\n## Topics\n", _topic_rows(LogConfig.settings.values())]
    for table in BrokerConfig.__bases__:
        if issubclass(table, SettingTable):
            title = (table.__doc__ or "").strip().rstrip(".").partition(": ")[0]
            shown = [setting for setting in table.settings.values() if not setting.internal]
            parts += [f"\n## {title}\n", _broker_rows(shown)]
    return "\n".join(parts) + "\n"


def _topic_rows(settings: Iterable[Setting[Any]]) -> str:
    rows = ["| setting | what it does | type | default | values | the broker's setting |", "|---|---|---|---|---|---|"]
    for setting in settings:
        if not setting.internal:
            synonyms = "<br>".join(f"`{name}`" for name in setting.synonyms)
            rows.append(f"| {_name(setting)} | {_values(setting)} | {synonyms} |")
    return "\n".join(rows)


def _broker_rows(settings: Iterable[Setting[Any]]) -> str:
    rows = ["| setting | what it does | type | default | values | changes |", "|---|---|---|---|---|---|"]
    for setting in settings:
        mode = "" if setting.update_mode is UpdateMode.READ_ONLY else setting.update_mode.value
        rows.append(f"| {_name(setting)} | {_values(setting)} | {mode} |")
    return "\n".join(rows)


def _name(setting: Setting[Any]) -> str:
    return f"`{setting.key}`{'' if setting.acts else ' *taken*'}"


def _values(setting: Setting[Any]) -> str:
    text = setting.default_text
    if text is None or text == "":
        default = "none" if text is None else "empty"
    else:
        default = "the largest" if setting.default == LONG_MAX else f"`{text}`"
    valid = "" if setting.valid is None else str(setting.valid)
    cells = [setting.summary, setting.value_type.name.lower(), default, valid]
    return " | ".join(cell.replace("|", "\\|") for cell in cells)


if __name__ == "__main__":
    sys.stdout.write(document())
