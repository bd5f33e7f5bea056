"""Consumer groups beside Apache Kafka's own coordinator: the same events, the same records and answers.

The slow tests ask Kafka; what it said to some of them is kept in `golden/consumer_groups`, which the quick tests go by
(`--regenerate-transcripts` with the slow ones writes it anew).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.protocol.coordinator.record_codec import GROUP_RECORDS, CoordinatorRecord, decode_record
from tests.broker.groups.alike import essence
from tests.broker.groups.group_events import GroupEvents, describe_record
from tests.broker.groups.oracle.group_oracle import GroupOracle, missing
from tests.broker.groups.random_group import RandomGroup

GOLDEN = Path(__file__).parents[2] / "golden" / "consumer_groups"
KEPT = [(seed, has_classic) for has_classic in (False, True) for seed in range(4)]
KEPT_STEPS = 60
SEEDS = 60
STEPS = 120


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupOracle]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with GroupOracle(tmp_path_factory.mktemp("oracle")) as running:
        yield running


def new_member_ids(outcome: dict[str, Any]) -> list[str]:
    """Give the ids that Kafka made up, so that ours gives out the same."""
    answered = [answer["response"].get("memberId", "") for answer in outcome["answers"]]
    return answered + [record["key"].get("memberId", "") for record in outcome["records"]]


class Comparison:
    """Performs an event on both sides and holds them against each other."""

    def __init__(self, oracle: GroupOracle) -> None:
        self.oracle = oracle
        self.ours = GroupEvents()
        self.kept: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def perform(self, event: dict[str, Any]) -> dict[str, Any]:
        (expected,) = self.oracle.ask([event])
        actual = self.ours.perform(event, new_ids=new_member_ids(expected))
        assert essence(event, actual) == essence(event, expected), f"event {len(self.kept)}: {json.dumps(event)}"
        self.kept.append((event, expected))
        return expected

    def play(self, seed: int, *, has_classic: bool, steps: int) -> None:
        group = RandomGroup(
            Random(seed), self.perform, has_classic=has_classic, protocol=self.ours.protocol, due=self.ours.due
        )
        group.play(steps)


@pytest.mark.slow
@pytest.mark.parametrize("has_classic", [False, True], ids=["consumers", "mixed"])
def test_random_groups_are_coordinated_as_kafka_does(oracle: GroupOracle, has_classic: bool) -> None:
    compared = 0
    for seed in range(SEEDS):
        print(f"seed {seed}")
        comparison = Comparison(oracle)
        comparison.play(seed, has_classic=has_classic, steps=STEPS)
        compared += len(comparison.kept)
    assert compared > SEEDS * STEPS


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "has_classic"), KEPT)
def test_transcript_of_kafka_is_current(
    oracle: GroupOracle, seed: int, has_classic: bool, regenerate_transcripts: bool
) -> None:
    comparison = Comparison(oracle)
    comparison.play(seed, has_classic=has_classic, steps=KEPT_STEPS)
    lines = [json.dumps([event, outcome], separators=(",", ":")) for event, outcome in comparison.kept]
    path = golden_path(seed, has_classic)
    if regenerate_transcripts:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    assert len(path.read_text().splitlines()) == len(lines)


def golden_path(seed: int, has_classic: bool) -> Path:
    return GOLDEN / f"{'mixed' if has_classic else 'consumers'}-{seed}.jsonl"


@pytest.mark.parametrize(("seed", "has_classic"), KEPT)
def test_what_kafka_did_is_what_we_do(seed: int, has_classic: bool) -> None:
    ours = GroupEvents()
    lines = golden_path(seed, has_classic).read_text().splitlines()
    for number, line in enumerate(lines):
        event, expected = json.loads(line)
        actual = ours.perform(event, new_ids=new_member_ids(expected))
        assert essence(event, actual) == essence(event, expected), f"event {number}: {json.dumps(event)}"


@pytest.mark.parametrize(("seed", "has_classic"), KEPT)
def test_records_have_the_bytes_that_kafka_writes(seed: int, has_classic: bool) -> None:
    seen = 0
    for line in golden_path(seed, has_classic).read_text().splitlines():
        for record in json.loads(line)[1]["records"]:
            key, value = bytes.fromhex(record["keyBytes"]), record["valueBytes"]
            decoded = decode_record(GROUP_RECORDS, key, None if value is None else bytes.fromhex(value))
            assert isinstance(decoded, CoordinatorRecord)
            ours = describe_record(decoded)
            assert (ours["keyBytes"], ours["valueBytes"]) == (record["keyBytes"], value)
            assert ours["value"] == record["value"]
            seen += 1
    assert seen > 50
