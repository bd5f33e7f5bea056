"""What Apache Kafka answers to requests about transactions: Tailrace answers the same.

The transcripts are Apache Kafka's; the slow test asks it again, and writes them anew where that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.broker.transactions.conversation import Conversation
from tests.transcript import check, transcripts

TRANSCRIPTS = transcripts("transactions")


@pytest.fixture(scope="module")
def tailrace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("tailrace")) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    reason = unavailable()
    if reason:
        pytest.skip(f"no Apache Kafka to compare with: {reason}")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_tailrace_answers_as_kafka(tailrace: BrokerProcess, path: Path) -> None:
    talk = Conversation(tailrace.port, f"{path.stem}.")
    check(path, talk.perform, regenerate=False)


@pytest.mark.slow
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_of_kafka(kafka: ApacheKafka, path: Path, regenerate_transcripts: bool) -> None:
    talk = Conversation(kafka.port, f"{path.stem}.")
    check(path, talk.perform, regenerate=regenerate_transcripts)


def test_the_transcripts_are_there() -> None:
    assert len(TRANSCRIPTS) >= 8
