"""The offset store: what was replayed is what was applied, in whatever order transactions and commits came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.groups.offset_store import OffsetStore, offset_tombstone
from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue

PARTITIONS = st.tuples(st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 1))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), PARTITIONS, st.sampled_from([-1, -1, 7, 8])),
        st.tuples(st.just("tombstone"), PARTITIONS, st.just(-1)),
        st.tuples(st.just("end"), st.booleans(), st.sampled_from([7, 8])),
    ),
    max_size=30,
)


def key(group: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


def run(store: OffsetStore, events: list[tuple[str, object, int]]) -> None:
    for position, (kind, what, producer_id) in enumerate(events):
        if kind == "end":
            store.end_transaction(producer_id, is_commit=bool(what))
        else:
            value = OffsetCommitValue(offset=position) if kind == "commit" else None
            store.apply(key(*what), value, offset=position, producer_id=producer_id)  # type: ignore[misc]


@given(EVENTS)
def test_it_holds_what_a_plain_model_holds(events: list[tuple[str, object, int]]) -> None:
    store = OffsetStore()
    run(store, events)
    committed: dict[object, int] = {}
    pending: dict[int, dict[object, int]] = {7: {}, 8: {}}
    for position, (kind, what, producer_id) in enumerate(events):
        if kind == "end":
            for partition, offset in pending[producer_id].items():
                if what and committed.get(partition, -1) < offset:
                    committed[partition] = offset
            pending[producer_id] = {}
        elif kind == "tombstone":
            for offsets in (committed, *pending.values()):
                offsets.pop(what, None)
        elif producer_id == -1:
            committed[what] = position
        else:
            pending[producer_id][what] = position
    found = {
        (group, topic, partition): offset.offset
        for group, topics in store.groups.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
    assert found == committed
    for group in "gh":
        open_partitions = {p for offsets in pending.values() for p in offsets if p[0] == group}  # type: ignore[index]
        assert store.has_open_transactions(group) == bool(open_partitions)
        assert {(group, *k) for k in store.partitions_of_group(group)} == open_partitions | {
            p
            for p in committed
            if p[0] == group  # type: ignore[index]
        }
    assert store.counts() == (len(committed), sum(bool(offsets) for offsets in pending.values()))


def test_nothing_is_left_of_what_was_removed() -> None:
    store = OffsetStore()
    run(store, [("commit", ("g", "t", 0), -1), ("commit", ("g", "t", 0), 7), ("tombstone", ("g", "t", 0), -1)])
    assert (store.groups, store.pending, store.counts()) == ({}, {}, (0, 0))


def test_a_tombstone_names_what_it_removes() -> None:
    assert offset_tombstone("g", "t", 3) == (key("g", "t", 3), None)
