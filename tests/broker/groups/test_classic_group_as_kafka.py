"""Classic groups beside Apache Kafka's own coordinator: the same events, the same records and answers.

The slow test asks Kafka about groups at random; what it said to some of them is kept in `golden/classic_groups`, which
the quick test goes by (`--regenerate-transcripts` with the slow ones writes it anew). Member ids are made up on both
sides, so ours are put in the place of theirs by the answers to the same joins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tailrace.broker.groups.classic_group import ClassicGroup
from tailrace.broker.groups.classic_records import group_record
from tailrace.broker.groups.hosted_classic import HostedClassicGroup
from tailrace.broker.groups.offset_requests import Committer, OffsetToCommit
from tailrace.broker.java_hash import place_in_small_map
from tailrace.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.json_form import message_from_json, message_to_json
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.broker.groups.alike import essence
from tests.broker.groups.group_events import GROUP, Event, GroupEvents, Outcome
from tests.broker.groups.oracle.group_oracle import GroupOracle, missing
from tests.broker.groups.random_classic import RandomClassic

GOLDEN = Path(__file__).parents[2] / "golden" / "classic_groups"
KEPT = range(5)
KEPT_STEPS = 80
SEEDS = 80
STEPS = 150


class ClassicEvents(GroupEvents):
    """Our coordinator behind the events of classic groups and offsets."""

    def _describe_classic(self, event: Event, outcome: Outcome) -> Any:
        described: list[Any] = []
        for group_id in event["groups"]:
            try:
                group = self.coordinator.describe(group_id)
            except ApiError as error:
                group = DescribedGroup(group_id=group_id, group_state="Dead")
                if event["version"] >= 6:
                    group.error_code, group.error_message = error.code, error.message
            described += message_to_json(DescribeGroupsResponse(groups=[group]), event["version"])["groups"]
        return described

    def _commit(self, event: Event, outcome: Outcome) -> Any:
        version = event["version"]
        request = message_from_json(OffsetCommitRequest, version, event["request"])
        response = OffsetCommitResponse()
        offsets: list[OffsetToCommit] = []
        for topic in request.topics:
            answers = [OffsetCommitResponsePartition(partition_index=p.partition_index) for p in topic.partitions]
            response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
            offsets += [
                OffsetToCommit(
                    topic.name,
                    topic.topic_id,
                    asked.partition_index,
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata,
                    answer,
                )
                for asked, answer in zip(topic.partitions, answers, strict=True)
            ]
        committer = Committer(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
        )
        told: list[ErrorCode] = []
        self.coordinator.commit_offsets(committer, offsets, version=version, retention_time_ms=-1, on_done=told.append)
        assert told == [ErrorCode.NONE]
        return message_to_json(response, version)

    def _fetch(self, event: Event, outcome: Outcome) -> Any:
        request = message_from_json(OffsetFetchRequest, event["version"], event["request"])
        response = OffsetFetchResponse()
        for group in request.groups:
            topics = None if group.topics is None else [(t.name, t.partition_indexes) for t in group.topics]
            found: list[Any] = []
            self.coordinator.fetch_offsets(group.group_id, topics, on_done=lambda *told, into=found: into.append(told))
            ((fetched, code),) = found
            partitions = [
                OffsetFetchResponseTopics(
                    name=name,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=one.partition,
                            committed_offset=one.offset,
                            committed_leader_epoch=one.leader_epoch,
                            metadata=one.metadata,
                            error_code=one.error,
                        )
                        for one in offsets
                    ],
                )
                for name, offsets in fetched
            ]
            response.groups.append(
                OffsetFetchResponseGroup(group_id=group.group_id, topics=partitions, error_code=code)
            )
        return message_to_json(response, event["version"])

    def _delete(self, event: Event, outcome: Outcome) -> Any:
        response = DeleteGroupsResponse()
        for group_id in event["groups"]:
            told: list[ErrorCode] = []
            try:
                self.coordinator.delete(group_id, on_done=told.append)
            except ApiError as error:
                told.append(error.code)
            response.results.append(DeletableGroupResult(group_id=group_id, error_code=told[0]))
        return message_to_json(response, 2)


class Replay:
    """Gives events to our coordinator and holds what they do against what Kafka did."""

    def __init__(self) -> None:
        self.ours = ClassicEvents()
        self._ids: dict[str, str] = {}
        self._new_ids = (f"x{number:036d}" for number in count(1))
        self.kept: list[tuple[Event, Outcome]] = []
        self.actual: Outcome = {}

    def compare(self, event: Event, expected: Outcome) -> None:
        with patch.object(ClassicGroup, "successors", lambda group: self._successors(group)):
            actual = self.ours.perform(_renamed(event, self._ids), new_ids=[next(self._new_ids)])
        self._learn_ids(expected, actual)
        self._drop_answers_that_kafka_owes(expected, actual)
        actual = json.loads(json.dumps(actual))  # states are plain texts, as Kafka's
        actual = _renamed(actual, {ours: theirs for theirs, ours in self._ids.items()})
        self.actual = actual
        if event["op"] == "leave" and expected.get("error") == "UNKNOWN_MEMBER_ID":
            # Kafka's service makes this of an error for a group that is not there.
            members = [{"errorCode": ErrorCode.UNKNOWN_MEMBER_ID} for _ in event["request"]["members"]]
            expected = {"answers": [], "records": [], "response": {"members": members}}
        for outcome in (actual, expected):
            outcome.pop("message", None)  # there is no room for it in any of these answers
        assert essence(event, actual) == essence(event, expected), f"event {len(self.kept)}: {json.dumps(event)}"
        self.kept.append((event, expected))

    @staticmethod
    def _drop_answers_that_kafka_owes(expected: Outcome, actual: Outcome) -> None:
        """Kafka forgets the waiting sync of a member that is taken out; here it is told that it is unknown."""
        answered = {answer["reply"] for answer in expected["answers"]}
        actual["answers"] = [
            answer
            for answer in actual["answers"]
            if answer["reply"] in answered or answer["response"]["errorCode"] != ErrorCode.UNKNOWN_MEMBER_ID
        ]

    def _learn_ids(self, expected: Outcome, actual: Outcome) -> None:
        """Find out which of our members is which of theirs: by their answers, and as the one that came last."""
        theirs = {answer["reply"]: answer["response"].get("memberId") for answer in expected["answers"]}
        for answer in actual["answers"]:
            our_id, their_id = answer["response"].get("memberId"), theirs.get(answer["reply"])
            if our_id and their_id:
                self._ids[their_id] = our_id
        their_new = _described_ids(expected) - self._ids.keys()
        our_new = _described_ids(actual) - set(self._ids.values())
        if len(their_new) == len(our_new) == 1:
            self._ids[their_new.pop()] = our_new.pop()

    def _successors(self, group: ClassicGroup) -> Iterator[str]:
        """Go through the members as a Java HashMap of few entries does."""
        theirs = {ours: theirs for theirs, ours in self._ids.items()}
        return iter(sorted(group.members, key=lambda member_id: place_in_small_map(theirs[member_id])))


def _described_ids(outcome: Outcome) -> set[str]:
    described = outcome.get("response")
    groups = described if isinstance(described, list) else []
    return {m["memberId"] for g in groups if isinstance(g, Mapping) for m in g.get("members", ())}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupOracle]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with GroupOracle(tmp_path_factory.mktemp("oracle")) as running:
        yield running


def play_beside(oracle: GroupOracle, seed: int, steps: int) -> Replay:
    replay = Replay()

    def perform(event: Event) -> Outcome:
        (expected,) = oracle.ask([event])
        replay.compare(event, expected)
        return expected

    RandomClassic(Random(seed), perform).play(steps)
    return replay


@pytest.mark.slow
def test_random_groups_do_what_kafkas_do(oracle: GroupOracle) -> None:
    for seed in range(SEEDS):
        print(f"seed {seed}")
        assert play_beside(oracle, seed, STEPS).kept


@pytest.mark.slow
@pytest.mark.parametrize("seed", KEPT)
def test_transcript_of_kafka_is_current(oracle: GroupOracle, seed: int, regenerate_transcripts: bool) -> None:
    kept = play_beside(oracle, seed, KEPT_STEPS).kept
    path = GOLDEN / f"{seed}.jsonl"
    if regenerate_transcripts:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in kept))
    assert len(path.read_text().splitlines()) == len(kept)


@pytest.mark.parametrize("seed", KEPT)
def test_what_kafka_did_is_what_we_do(seed: int) -> None:
    replay = Replay()
    for line in (GOLDEN / f"{seed}.jsonl").read_text().splitlines():
        event, expected = json.loads(line)
        replay.compare(event, expected)
    assert len(replay.kept) > KEPT_STEPS / 2


def test_what_is_loaded_is_what_was_written() -> None:
    """After every event of every kept run the records so far make the group that was last written."""
    checks = 0
    for seed in KEPT:
        ours, loaded = ClassicEvents(), ClassicEvents()
        replay = Replay()
        replay.ours = ours
        for line in (GOLDEN / f"{seed}.jsonl").read_text().splitlines():
            event, expected = json.loads(line)
            replay.compare(event, expected)
            if not expected["records"]:
                continue
            loaded.load(ours.log.records)
            assert _written(loaded) == _last_written(ours.log.records)
            assert loaded.shard.offsets == ours.shard.offsets
            checks += 1
    assert checks > 40


def _written(events: ClassicEvents) -> CoordinatorRecord | None:
    """Give the group's record; None where there is no group, or one that has offsets only."""
    hosted = events.shard.groups.get(GROUP)
    if not isinstance(hosted, HostedClassicGroup) or (hosted.group.generation, hosted.protocol_type) == (0, ""):
        return None
    return group_record(hosted.group)


def _last_written(records: list[CoordinatorRecord]) -> CoordinatorRecord | None:
    written = [record for record in records if isinstance(record.value, GroupMetadataValue) or record.value is None]
    written = [record for record in written if isinstance(record.key, GroupMetadataKey)]
    if not written or not isinstance(written[-1].value, GroupMetadataValue):
        return None
    return written[-1] if written[-1].value.generation else None
