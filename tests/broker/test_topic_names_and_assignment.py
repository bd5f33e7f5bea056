"""Pure rules: which names are topics, and where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest

from tailrace.broker.topic_assignment import assign_replicas, check_assignment
from tailrace.broker.topic_names import check_topic_name, colliding_topic, is_internal, is_valid_topic_name
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "__consumer_offsets", "...", "-"])
def test_good_names(name: str) -> None:
    assert is_valid_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n", "a\x00", "a:b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ApiError) as refusal:
        check_topic_name(name)
    assert refusal.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not is_valid_topic_name(name)


def test_names_collide_in_dots_and_underscores_only() -> None:
    assert colliding_topic("a.b", ["x", "a_b"]) == "a_b"
    assert colliding_topic("a_b.c", ["a.b_c"]) == "a.b_c"
    assert colliding_topic("a.b", ["a.b", "a-b"]) is None
    assert colliding_topic("ab", ["ab"]) is None


def test_internal_topics() -> None:
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")


@pytest.mark.parametrize("brokers", range(1, 7))
def test_replicas_spread_evenly_and_never_twice_on_a_broker(brokers: int) -> None:
    nodes = [node * 10 for node in range(brokers)]
    for factor in range(1, brokers + 1):
        assignments = assign_replicas(nodes, partitions=brokers * 6, replication_factor=factor, start=12345)
        assert all(len(set(replicas)) == factor for replicas in assignments)
        leaders = Counter(replicas[0] for replicas in assignments)
        assert set(leaders.values()) == {6}
        copies = Counter(node for replicas in assignments for node in replicas)
        assert max(copies.values()) - min(copies.values()) <= brokers


def test_growth_goes_on_where_the_topic_stopped() -> None:
    whole = assign_replicas([1, 2, 3], partitions=7, replication_factor=2, start=5)
    more = assign_replicas([1, 2, 3], partitions=3, replication_factor=2, start=5, partitions_before=4)
    assert more == whole[4:]


def test_too_few_brokers() -> None:
    with pytest.raises(ApiError) as refusal:
        assign_replicas([1], partitions=1, replication_factor=2, start=0)
    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_manual_assignment_has_as_many_replicas_everywhere() -> None:
    check_assignment([1, 2], brokers={1, 2, 3}, replication_factor=2)
    with pytest.raises(ApiError, match="while the others have 3"):
        check_assignment([1, 2], brokers={1, 2, 3}, replication_factor=3)
