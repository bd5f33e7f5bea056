"""Writes down what Apache Kafka answers: `python -m tests.compat.every_version.record`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tailrace.testing.apache_kafka import ApacheKafka
from tests.compat.every_version.script import SETTINGS, converse

GOLDEN = Path(__file__).parents[2] / "golden" / "every-version.json.gz"
FEATURES = {"eligible.leader.replicas.version": 0}
"""With one replica there is never another one that could be elected, so the feature is not taken part in."""


def ask_apache_kafka(folder: Path) -> dict[str, Any]:
    with ApacheKafka(folder, SETTINGS, FEATURES) as kafka:
        return converse(kafka.port)


def main() -> None:
    with TemporaryDirectory() as folder:
        answers = ask_apache_kafka(Path(folder))
    text = json.dumps(answers, indent=0, sort_keys=True)
    GOLDEN.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
