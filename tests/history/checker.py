"""Finds in a history what may not be there. The classes of anomalies are those of Jepsen's Kafka tests.

- lost write: a record was acknowledged at an offset below one that somebody read, and nobody ever read it
- unseen: a record was acknowledged and nobody read it, though everything was read to the end
- duplicate: one value stands at two offsets
- inconsistent offsets: two values stand at one offset
- aborted read: a read of committed records gave one of an aborted transaction
- poll skip: a consumer that went on where it was passed over records that are there
- non-monotonic poll: a consumer that went on where it was went back
- non-monotonic send: a producer's later record stands before an earlier one
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.history.operations import Ended, Operation, Partition, Polled, Sent

Anomalies = dict[str, list[str]]


@dataclass
class _View:
    """A history sorted by what is asked of it."""

    sent: list[Sent] = field(default_factory=list)
    polled: list[Polled] = field(default_factory=list)
    aborted: set[str] = field(default_factory=set)
    values: dict[tuple[Partition, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    places: dict[tuple[Partition, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    read: dict[Partition, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, history: Iterable[Operation]) -> _View:
        view = cls()
        for operation in history:
            match operation:
                case Sent():
                    view.sent.append(operation)
                    if operation.offset is not None:
                        view._note(operation.partition, operation.offset, operation.value)
                case Polled():
                    view.polled.append(operation)
                    for offset, value in operation.records:
                        view._note(operation.partition, offset, value)
                        view.read[operation.partition].add(value)
                case Ended():
                    if not operation.is_committed:
                        view.aborted.add(operation.transaction)
        return view

    def _note(self, partition: Partition, offset: int, value: int) -> None:
        self.values[partition, offset].add(value)
        self.places[partition, value].add(offset)

    def acknowledged(self) -> list[Sent]:
        """What has to be readable: not what an aborted transaction wrote."""
        return [sent for sent in self.sent if sent.transaction not in self.aborted]


def find_anomalies(history: Iterable[Operation], *, was_read_to_the_end: bool = True) -> Anomalies:
    """Give every anomaly by its class; a history without any gives an empty dict."""
    view = _View.of(history)
    found = {
        "lost write": _lost_writes(view),
        "unseen": _unseen(view) if was_read_to_the_end else [],
        "duplicate": _duplicates(view),
        "inconsistent offsets": _inconsistent_offsets(view),
        "aborted read": _aborted_reads(view),
        "poll skip": _poll_skips(view),
        "non-monotonic poll": _backward_polls(view),
        "non-monotonic send": _backward_sends(view),
    }
    return {name: cases for name, cases in found.items() if cases}


def _lost_writes(view: _View) -> list[str]:
    furthest: dict[Partition, int] = {}
    for polled in view.polled:
        for offset, _ in polled.records:
            furthest[polled.partition] = max(offset, furthest.get(polled.partition, -1))
    return [
        f"{sent.value} at {sent.partition} {sent.offset}, read up to {furthest[sent.partition]}"
        for sent in view.acknowledged()
        if sent.offset is not None
        and sent.offset < furthest.get(sent.partition, -1)
        and sent.value not in view.read[sent.partition]
    ]


def _unseen(view: _View) -> list[str]:
    return [
        f"{sent.value} at {sent.partition} {sent.offset}"
        for sent in view.acknowledged()
        if sent.value not in view.read[sent.partition]
    ]


def _duplicates(view: _View) -> list[str]:
    return [
        f"{value} in {partition} at {sorted(offsets)}"
        for (partition, value), offsets in view.places.items()
        if len(offsets) > 1
    ]


def _inconsistent_offsets(view: _View) -> list[str]:
    return [
        f"{partition} {offset} is {sorted(values)}"
        for (partition, offset), values in view.values.items()
        if len(values) > 1
    ]


def _aborted_reads(view: _View) -> list[str]:
    aborted = {(sent.partition, sent.value) for sent in view.sent if sent.transaction in view.aborted}
    return [
        f"{value} at {polled.partition} {offset}"
        for polled in view.polled
        if polled.is_committed_read
        for offset, value in polled.records
        if (polled.partition, value) in aborted
    ]


def _steps(view: _View) -> Iterable[tuple[Polled, int, int]]:
    """Give each pair of neighbouring offsets that a consumer saw within one generation."""
    last: dict[tuple[str, Partition, int], int] = {}
    for polled in view.polled:
        for offset, _ in polled.records:
            key = (polled.process, polled.partition, polled.generation)
            if key in last:
                yield polled, last[key], offset
            last[key] = offset


def _poll_skips(view: _View) -> list[str]:
    committed: dict[Partition, list[int]] = defaultdict(list)
    for polled in view.polled:
        if polled.is_committed_read:
            committed[polled.partition] += [offset for offset, _ in polled.records]
    there = {partition: sorted(set(offsets)) for partition, offsets in committed.items()}
    skips: list[str] = []
    for polled, before, after in _steps(view):
        offsets = there.get(polled.partition, [])
        next_one = bisect_right(offsets, before)
        if next_one < len(offsets) and offsets[next_one] < after:
            over = offsets[next_one]
            skips.append(f"{polled.process} went from {before} to {after} in {polled.partition}, over {over}")
    return skips


def _backward_polls(view: _View) -> list[str]:
    return [
        f"{polled.process} went from {before} back to {after} in {polled.partition}"
        for polled, before, after in _steps(view)
        if after <= before
    ]


def _backward_sends(view: _View) -> list[str]:
    last: dict[tuple[str, Partition], Sent] = {}
    backward: list[str] = []
    for sent in view.sent:
        if sent.offset is None:
            continue
        before = last.get((sent.process, sent.partition))
        if before is not None and before.offset is not None and sent.offset <= before.offset:
            backward.append(f"{sent.process}: {before.value} at {before.offset}, then {sent.value} at {sent.offset}")
        last[sent.process, sent.partition] = sent
    return backward
