"""Assignors: everything to somebody who wants it, evenly, and with as little moved as can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.assignors import Assignment, AssignmentInput, Assignor, MemberSubscription
from tailrace.client.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from tailrace.client.group_membership import ASSIGNORS, find_assignors
from tailrace.client.sticky_assignor import CooperativeStickyAssignor, StickyAssignor, read_user_data, write_user_data
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig
from tailrace.settings.config_error import ConfigError

TOPICS = ("a", "b", "c")


def keys(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def subscribed(*topics: str, owned: list[TopicPartition] | None = None, generation: int = -1) -> MemberSubscription:
    return MemberSubscription(topics=topics, owned=tuple(owned or ()), generation_id=generation)


def test_range_gives_neighbours_to_the_same_member() -> None:
    members = {"m2": subscribed("a", "b"), "m1": subscribed("a", "b"), "m3": subscribed("b")}
    assert ASSIGNORS["range"]().assign(AssignmentInput({"a": 3, "b": 4}, members)) == {
        "m1": keys("a", 0, 1) + keys("b", 0, 1),
        "m2": keys("a", 2) + keys("b", 2),
        "m3": keys("b", 3),
    }


def test_static_members_come_first_by_their_names() -> None:
    members = {
        "x": replace(subscribed("a"), group_instance_id="2"),
        "y": replace(subscribed("a"), group_instance_id="1"),
        "a": subscribed("a"),
    }
    assert ASSIGNORS["range"]().assign(AssignmentInput({"a": 3}, members)) == {
        "y": keys("a", 0),
        "x": keys("a", 1),
        "a": keys("a", 2),
    }


def test_round_robin_goes_round_past_those_that_do_not_subscribe() -> None:
    members = {"m1": subscribed("a"), "m2": subscribed("a", "b"), "m3": subscribed("a", "b", "c")}
    assert ASSIGNORS["roundrobin"]().assign(AssignmentInput({"a": 1, "b": 2, "c": 3}, members)) == {
        "m1": keys("a", 0),
        "m2": keys("b", 0),
        "m3": keys("b", 1) + keys("c", 0, 1, 2),
    }


def test_a_partition_that_moves_is_first_given_up() -> None:
    members = {"m1": subscribed("a", owned=keys("a", 0, 1, 2, 3), generation=4), "m2": subscribed("a")}
    given = AssignmentInput({"a": 4}, members)
    first = CooperativeStickyAssignor().assign(given)
    assert first == {"m1": keys("a", 0, 1), "m2": []}
    members = {"m1": subscribed("a", owned=first["m1"], generation=5), "m2": subscribed("a", generation=5)}
    assert CooperativeStickyAssignor().assign(AssignmentInput({"a": 4}, members)) == {
        "m1": keys("a", 0, 1),
        "m2": keys("a", 2, 3),
    }


def test_what_two_members_claim_belongs_to_the_later_generation() -> None:
    members = {
        "m1": subscribed("a", owned=keys("a", 0, 1), generation=3),
        "m2": subscribed("a", owned=keys("a", 0, 1), generation=4),
    }
    sticky = StickyAssignor()
    assignment = sticky.assign(AssignmentInput({"a": 3}, members))
    assert set(assignment["m2"]) == set(keys("a", 0, 1))


@st.composite
def inputs(draw: st.DrawFn, *, is_uniform: bool = False) -> AssignmentInput:
    counts = {topic: draw(st.integers(0, 7)) for topic in TOPICS}
    wanted = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda topics: tuple(sorted(topics)))
    everyone = draw(wanted)
    members = {
        f"m{number}": MemberSubscription(topics=everyone if is_uniform else draw(wanted))
        for number in range(draw(st.integers(1, 5)))
    }
    return AssignmentInput(counts, members)


def check_valid(given_: AssignmentInput, assignment: Assignment) -> None:
    wanted = {topic for member in given_.members.values() for topic in member.topics}
    every = {TopicPartition(topic, n) for topic in wanted for n in range(given_.partition_counts[topic])}
    assigned = [key for partitions in assignment.values() for key in partitions]
    assert Counter(assigned) == Counter(every)
    for member_id, partitions in assignment.items():
        assert {key.topic for key in partitions} <= set(given_.members[member_id].topics)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(inputs())
def test_everything_goes_to_one_member_that_wants_it(name: str, given_: AssignmentInput) -> None:
    check_valid(given_, ASSIGNORS[name]().assign(given_))


@given(inputs(is_uniform=True), st.integers(0, 3))
def test_sticky_assignments_are_even_and_move_no_more_than_they_must(given_: AssignmentInput, joining: int) -> None:
    before = StickyAssignor().assign(given_)
    sizes = [len(partitions) for partitions in before.values()]
    assert max(sizes) - min(sizes) <= 1
    topics = next(iter(given_.members.values())).topics
    members = {
        member_id: replace(member, user_data=write_user_data(before[member_id], 1))
        for member_id, member in given_.members.items()
    }
    members |= {f"new{number}": subscribed(*topics) for number in range(joining)}
    after_input = AssignmentInput(given_.partition_counts, members)
    after = StickyAssignor().assign(after_input)
    check_valid(after_input, after)
    sizes = [len(partitions) for partitions in after.values()]
    assert max(sizes) - min(sizes) <= 1
    moved = sum(len(set(before[member_id]) - set(after[member_id])) for member_id in before)
    assert moved == sum(len(partitions) for member_id, partitions in after.items() if member_id not in before)


@given(inputs())
def test_cooperative_members_agree_after_two_rounds(given_: AssignmentInput) -> None:
    owned: Assignment = {member_id: [] for member_id in given_.members}
    first_member = next(iter(given_.members))
    owned[first_member] = [
        TopicPartition(topic, n)
        for topic in given_.members[first_member].topics
        for n in range(given_.partition_counts[topic])
    ]
    for generation in range(3):
        members = {
            member_id: replace(member, owned=tuple(owned[member_id]), generation_id=generation)
            for member_id, member in given_.members.items()
        }
        owned = CooperativeStickyAssignor().assign(AssignmentInput(given_.partition_counts, members))
    check_valid(given_, owned)


def test_subscriptions_and_assignments_are_kafkas_bytes() -> None:
    data = write_subscription(["b", "a"], owned=keys("a", 1), generation_id=5, user_data=b"u", rack_id="r")
    assert data == bytes.fromhex(
        "0003 00000002 0001 61 0001 62 00000001 75 00000001 0001 61 00000001 00000001 00000005 0001 72".replace(" ", "")
    )
    read = read_subscription(data, "static")
    assert read == MemberSubscription(
        topics=("a", "b"),
        owned=tuple(keys("a", 1)),
        generation_id=5,
        user_data=b"u",
        group_instance_id="static",
        rack_id="r",
    )
    assert read_subscription(b"\x00\x09" + data[2:] + b"later").topics == ("a", "b")
    assignment = write_assignment(keys("a", 1, 2))
    assert assignment == bytes.fromhex("0000 00000001 0001 61 00000002 00000001 00000002 ffffffff".replace(" ", ""))
    assert read_assignment(assignment) == keys("a", 1, 2)
    assert read_assignment(b"") == []
    with pytest.raises(MalformedFrame):
        read_subscription(b"\xff\xff")


def test_sticky_user_data_is_kafkas_bytes() -> None:
    data = write_user_data(keys("a", 1), 7)
    assert data == bytes.fromhex("00000001 0001 61 00000001 00000001 00000007".replace(" ", ""))
    assert read_user_data(data) == (tuple(keys("a", 1)), 7)
    assert read_user_data(data[:-4]) == (tuple(keys("a", 1)), -1)
    sticky, cooperative = StickyAssignor(), CooperativeStickyAssignor()
    assert sticky.user_data([]) is None
    for assignor in (sticky, cooperative):
        assignor.on_assignment(keys("a", 1), 7)
    assert sticky.user_data([]) == data
    assert cooperative.user_data([]) == b"\x00\x00\x00\x07"


def test_assignors_are_found_by_their_names() -> None:
    made = find_assignors(ConsumerConfig({"partition_assignment_strategy": "sticky,range"}))
    assert [assignor.name for assignor in made] == ["sticky", "range"]
    with pytest.raises(ConfigError, match="one of range, roundrobin, sticky, cooperative-sticky"):
        find_assignors(ConsumerConfig({"partition_assignment_strategy": "best"}))
    with pytest.raises(TypeError):
        Assignor().assign(AssignmentInput({}))
