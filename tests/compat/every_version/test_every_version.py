"""What Apache Kafka 4.1 answers to every version of every API that is served here, asked of Tailrace.

`golden/every-version.json.gz` holds Kafka's answers by the titles of the questions; `python -m
tests.compat.every_version.record` writes it anew. `DEVIATIONS` has what differs, and why.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.testing.apache_kafka import unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.every_version.record import GOLDEN, ask_apache_kafka
from tests.compat.every_version.script import SETTINGS, converse

DEVIATIONS: dict[str, str] = {}


def golden() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    return answers


def with_served_only(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Leave out of Kafka's ranges the APIs that are not served here: those are listed in docs/protocol-coverage.md."""
    served = {key for title, answer in ours.items() if title.endswith(" ranges") for key in answer}
    return {
        title: {key: value for key, value in answer.items() if key in served} if title.endswith(" ranges") else answer
        for title, answer in theirs.items()
    }


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, str]:
    assert theirs.keys() == ours.keys()
    return {
        title: f"{title}\n  Kafka {json.dumps(theirs[title])[:600]}\n  here  {json.dumps(ours[title])[:600]}"
        for title in theirs
        if theirs[title] != ours[title]
    }


def test_every_version_is_answered_as_by_kafka(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        ours = converse(broker.port)
    found = differences(with_served_only(golden(), ours), ours)
    unexpected = [text for title, text in found.items() if title not in DEVIATIONS]
    assert not unexpected, "\n".join(unexpected)
    assert found.keys() == DEVIATIONS.keys(), "a deviation that is no more has to leave the list"


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_kafka_answers_what_was_recorded(tmp_path: Path) -> None:
    assert not differences(golden(), ask_apache_kafka(tmp_path))
