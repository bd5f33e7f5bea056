"""Members of both protocols against transcripts: what answers make of a member, and what it says next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tailrace.client.classic_membership import ClassicMembership
from tailrace.client.server_membership import ServerMembership, Wishes
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsResponse,
)
from tests import transcript

TOPIC = b"T" * 16


def arguments(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def code_of(given: dict[str, str]) -> int:
    return ErrorCode[given["error"]] if "error" in given else 0


def classic(events: list[str]) -> Iterator[list[str]]:
    member = ClassicMembership()
    for event in events:
        name, *words = event.split()
        given = arguments(words)
        code, generation = code_of(given), int(given.get("generation", member.generation_id))
        done: object = None
        if name == "begin":
            member.begin()
        elif name == "joined":
            done = member.joined(
                code, member_id=given.get("member", ""), generation_id=generation, protocol_name="range"
            )
        elif name == "synced":
            done = member.synced(code)
        elif name == "heartbeat":
            done = member.heartbeat(code, generation_id=generation)
        elif name == "commit":
            member.commit_refused(code, generation_id=generation)
        elif name == "lose":
            member.lose("too long between polls", forget_id="static" not in given)
        elif name == "told":
            member.is_lost = False
        else:
            raise AssertionError(event)
        answers = [] if done is None else [f"next {getattr(done, 'name', done)}"]
        flags = [
            word
            for word, holds in (
                ("rejoin", member.is_rejoin_due),
                ("lost", member.is_lost),
                ("member", member.is_member),
            )
            if holds
        ]
        failure = "" if member.failure is None else f" failure {member.failure.name}"
        state = f"{member.state.name} {member.member_id or '-'} {member.generation_id}"
        yield [*answers, f"{state} [{' '.join(flags)}]{failure}"]


def server(events: list[str]) -> Iterator[list[str]]:
    member = ServerMembership("g", "m")
    wishes = Wishes(topics=("flights",), rebalance_timeout_ms=300_000)
    sent_epoch = 0
    for event in events:
        name, *words = event.split()
        given = arguments(words)
        answers: list[str] = []
        if name == "begin":
            member.begin()
        elif name == "subscribe":
            topics = tuple(given["topics"].split(",")) if "topics" in given else None
            wishes = Wishes(topics=topics, pattern=given.get("pattern"), rebalance_timeout_ms=300_000)
        elif name == "send":
            sent_epoch = member.epoch
            answers.append(f"says {described(member, wishes)}")
        elif name == "answer":
            assignment = None
            if "assigned" in given:
                partitions = TopicPartitionsResponse(topic_id=TOPIC, partitions=numbers(given["assigned"]))
                assignment = Assignment(topic_partitions=[partitions])
            response = ConsumerGroupHeartbeatResponse(
                error_code=code_of(given),
                member_id="m",
                member_epoch=int(given.get("epoch", member.epoch)),
                heartbeat_interval_ms=5000,
                assignment=assignment,
            )
            member.answered(response, epoch=sent_epoch)
        elif name == "no_answer":
            member.unanswered()
        elif name == "reconciled":
            member.reconciled((TOPIC, number) for number in numbers(given["owned"]))
        elif name == "lose":
            member.lose()
        elif name == "leave":
            answers.append(f"says epoch {member.leave_request().member_epoch}")
            member.left()
        else:
            raise AssertionError(event)
        owned = ",".join(str(number) for _, number in sorted(member.owned))
        target = "" if member.target is None else f" target {','.join(str(n) for _, n in sorted(member.target))}"
        news = " news" if member.has_news(wishes) else ""
        lost = " lost" if member.is_lost else ""
        failure = "" if member.failure is None else f" failure {member.failure.name}"
        yield [*answers, f"{member.state.name} epoch {member.epoch} owns [{owned}]{target}{news}{lost}{failure}"]


def described(member: ServerMembership, wishes: Wishes) -> str:
    request = member.request(wishes)
    words = [f"epoch {request.member_epoch}"]
    if request.rebalance_timeout_ms != -1:
        words.append("everything")
    if request.subscribed_topic_names is not None:
        words.append(f"topics {','.join(request.subscribed_topic_names)}")
    if request.subscribed_topic_regex is not None:
        words.append(f"pattern {request.subscribed_topic_regex!r}")
    if request.topic_partitions is not None:
        words.append(f"owned {[number for topic in request.topic_partitions for number in topic.partitions]}")
    return " ".join(words)


MACHINES: dict[str, Callable[[list[str]], Iterator[list[str]]]] = {"classic_member": classic, "server_member": server}


@pytest.mark.parametrize(
    ("machine", "path"),
    [pytest.param(name, path, id=f"{name}-{path.stem}") for name in MACHINES for path in transcript.transcripts(name)],
)
def test_members_do_what_their_transcript_says(machine: str, path: Path, regenerate_transcripts: bool) -> None:
    transcript.check(path, MACHINES[machine], regenerate=regenerate_transcripts)
