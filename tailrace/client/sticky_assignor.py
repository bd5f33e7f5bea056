"""The sticky assignors: as even as can be, and as little moved as can be.

Members keep what they have up to their share; what nobody has goes to whoever has least; then partitions move from the
fullest member to the emptiest that may read them, as long as that makes the two more even. The bytes that members send
each other are those of Kafka's assignors of the same names:

    sticky               user data: previous assignment array(topic string, partitions array i32) | generation i32
    cooperative-sticky   user data: generation i32; what is owned is in the subscription itself
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from struct import Struct

from tailrace.client.assignors import Assignment, AssignmentInput, Assignor, MemberSubscription, owned_before
from tailrace.protocol.topic_partition import TopicPartition

_int32 = Struct(">i")
_int16 = Struct(">h")


class StickyAssignor(Assignor):
    """Balanced and sticky; every member gives up everything before it gets its new partitions."""

    name = "sticky"

    def __init__(self) -> None:
        self._owned: tuple[TopicPartition, ...] = ()
        self._generation_id = -1

    def assign(self, given: AssignmentInput) -> Assignment:
        """Give every member its partitions."""
        return balance(AssignmentInput(given.partition_counts, {k: _told(m) for k, m in given.members.items()}))

    def user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:
        """Tell the leader what this member has read."""
        return write_user_data(self._owned, self._generation_id) if self._owned else None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Remember what this member has to read."""
        self._owned, self._generation_id = tuple(partitions), generation_id


class CooperativeStickyAssignor(Assignor):
    """Balanced and sticky; a partition that moves is first given up by one member, then given to the other."""

    name = "cooperative-sticky"
    is_cooperative = True

    def __init__(self) -> None:
        self._generation_id = -1

    def assign(self, given: AssignmentInput) -> Assignment:
        """Give every member its partitions, without those that another one still has."""
        members = {key: _with_generation(member) for key, member in given.members.items()}
        owners: dict[TopicPartition, set[str]] = defaultdict(set)
        for member_id, member in members.items():
            for key in member.owned:
                owners[key].add(member_id)
        assignment = balance(AssignmentInput(given.partition_counts, members))
        return {
            member_id: [key for key in keys if not owners[key] - {member_id}] for member_id, keys in assignment.items()
        }

    def user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:
        """Tell the leader of which generation what this member owns is."""
        return _int32.pack(self._generation_id)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Remember the generation."""
        self._generation_id = generation_id


def balance(given: AssignmentInput) -> Assignment:
    """Give every member its partitions: balanced first, then sticky."""
    topics = given.topics()
    readers = {topic: given.members_of(topic) for topic in topics}
    everything = [TopicPartition(topic, n) for topic in topics for n in range(given.partition_counts[topic])]
    assignment: Assignment = {member_id: [] for member_id in sorted(given.members, key=given.order)}
    owners = owned_before(given)
    share, more = divmod(len(everything), max(len(given.members), 1))
    is_uniform = len({frozenset(member.topics) for member in given.members.values()}) <= 1
    for key in everything:
        owner = owners.get(key)
        if owner is not None:
            assignment[owner].append(key)
    if is_uniform:
        _trim(assignment, share, more)
    placed = {key for keys in assignment.values() for key in keys}
    _place([key for key in everything if key not in placed], assignment, readers)
    _level(assignment, readers)
    return assignment


def _trim(assignment: Assignment, share: int, more: int) -> None:
    """Let nobody keep more than its share; as many members as there is a rest may keep one more."""
    for keys in assignment.values():
        limit = share
        if len(keys) > share and more > 0:
            limit, more = share + 1, more - 1
        del keys[limit:]


def _place(keys: Sequence[TopicPartition], assignment: Assignment, readers: Mapping[str, list[str]]) -> None:
    """Give each partition to whoever has least among those that may read it; those with few readers go first."""
    order = {member_id: index for index, member_id in enumerate(assignment)}
    heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
    for key in sorted(keys, key=lambda key: (len(readers[key.topic]), key)):
        members = tuple(readers[key.topic])
        heap = heaps.get(members)
        if heap is None:
            heap = heaps[members] = [(len(assignment[m]), order[m], m) for m in members]
            heapq.heapify(heap)
        while True:  # what a heap knows may be old where members are in several
            size, index, member_id = heap[0]
            actual = len(assignment[member_id])
            if actual == size:
                break
            heapq.heapreplace(heap, (actual, index, member_id))
        assignment[member_id].append(key)
        heapq.heapreplace(heap, (actual + 1, index, member_id))


def _level(assignment: Assignment, readers: Mapping[str, list[str]]) -> None:
    """Move partitions from fuller to emptier members until no move makes two of them more even."""
    is_moving = True
    while is_moving:
        is_moving = False
        for source in sorted(assignment, key=lambda member_id: -len(assignment[member_id])):
            for key in list(assignment[source]):
                target = min(readers[key.topic], key=lambda member_id: len(assignment[member_id]))
                if len(assignment[source]) - len(assignment[target]) >= 2:
                    assignment[source].remove(key)
                    assignment[target].append(key)
                    is_moving = True


def _told(member: MemberSubscription) -> MemberSubscription:
    """Give a member with what its user data says that it has read."""
    if not member.user_data:
        return member
    owned, generation_id = read_user_data(member.user_data)
    return replace(member, owned=owned, generation_id=generation_id)


def _with_generation(member: MemberSubscription) -> MemberSubscription:
    """Give a member with the generation of its user data, where its subscription is of before KIP-792."""
    if member.generation_id >= 0 or not member.user_data or len(member.user_data) < _int32.size:
        return member
    return replace(member, generation_id=_int32.unpack_from(member.user_data)[0])


def write_user_data(owned: Sequence[TopicPartition], generation_id: int) -> bytes:
    """Write what a member of a sticky group has read."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in owned:
        topics[topic].append(partition)
    out = _int32.pack(len(topics))
    for topic, numbers in topics.items():
        name = topic.encode()
        out += _int16.pack(len(name)) + name + _int32.pack(len(numbers))
        out += b"".join(_int32.pack(number) for number in numbers)
    return out + _int32.pack(generation_id)


def read_user_data(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Read what a member has read, and of which generation that was; -1 where it is of before KIP-341."""
    owned: list[TopicPartition] = []
    (count,), position = _int32.unpack_from(data), 4
    for _ in range(count):
        size: int = _int16.unpack_from(data, position)[0]
        topic = data[position + 2 : position + 2 + size].decode()
        position += 2 + size
        numbers: int = _int32.unpack_from(data, position)[0]
        position += 4
        places = range(position, position + 4 * numbers, 4)
        owned += [TopicPartition(topic, _int32.unpack_from(data, place)[0]) for place in places]
        position += 4 * numbers
    has_generation = len(data) - position >= _int32.size
    return tuple(owned), _int32.unpack_from(data, position)[0] if has_generation else -1
