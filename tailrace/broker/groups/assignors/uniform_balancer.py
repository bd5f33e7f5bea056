"""Uniform assignment where members want different topics: keep, fill up, then level out.

Members keep the partitions of topics that they still want. Partitions without an owner go to the least loaded of those
who want them, hard topics (many partitions for each subscriber) first. Then, topic by topic, partitions move from the
most loaded subscriber to the least loaded one until the two differ by one at most. A topic levelled later may disturb
an earlier one, so this goes round until nothing moves, at most `ROUNDS_MAX` times.
"""

from __future__ import annotations

from tailrace.broker.groups.assignors.group_spec import Assignment, GroupSpec, uuid_order

ROUNDS_MAX = 16
NO_OWNER = -1


class UniformBalancer:
    """One assignment in the making; members are numbers, in the order of their ids."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._member_ids = sorted(spec.members)
        self._loads = [0] * len(self._member_ids)
        self._subscribers: dict[bytes, list[int]] = {}
        for number, member_id in enumerate(self._member_ids):
            for topic in spec.members[member_id].topic_ids:
                self._subscribers.setdefault(topic, []).append(number)
        counts = spec.partition_counts
        self._topics = sorted(self._subscribers, key=self._hardness)
        self._owners: dict[bytes, list[int]] = {topic: [NO_OWNER] * counts[topic] for topic in self._topics}

    def assign(self) -> dict[str, Assignment]:
        """Assign evenly."""
        self._keep()
        self._fill_up()
        self._level_out()
        assigned: list[dict[bytes, set[int]]] = [{} for _ in self._member_ids]
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assigned[owner].setdefault(topic, set()).add(partition)
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in own.items()}
            for member_id, own in zip(self._member_ids, assigned, strict=True)
        }

    def _hardness(self, topic: bytes) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self._subscribers[topic])
        return -self._spec.partition_counts[topic] / subscribers, subscribers, uuid_order(topic)

    def _keep(self) -> None:
        for number, member_id in enumerate(self._member_ids):
            member = self._spec.members[member_id]
            for topic, partitions in member.assignment.items():
                if topic in member.topic_ids:
                    owners = self._owners[topic]
                    for partition in partitions:
                        if partition < len(owners):  # a damaged log may say otherwise
                            owners[partition] = number
                            self._loads[number] += 1

    def _fill_up(self) -> None:
        for topic in self._topics:
            free = [partition for partition, owner in enumerate(self._owners[topic]) if owner == NO_OWNER]
            levels = LoadLevels(self._loads, self._subscribers[topic])
            for partition in free:
                self._give(topic, partition, levels.take_least())

    def _level_out(self) -> None:
        """Level the shared topics in turn, until a whole turn went by without a move."""
        shared = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        last_moved: int | None = None
        for _ in range(ROUNDS_MAX):
            for index, topic in enumerate(shared):
                if index == last_moved:
                    return
                if self._level_topic(topic) or last_moved is None:
                    last_moved = index

    def _level_topic(self, topic: bytes) -> int:
        """Level one topic; give how many partitions moved."""
        levels = LoadLevels(self._loads, self._subscribers[topic])
        if levels.spread <= 1:
            return 0
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            held.setdefault(owner, []).append(partition)
        moved = 0
        while not levels.are_even:
            source = levels.take_most()
            while source is not None and not held.get(source):
                levels.exclude_most()
                source = levels.take_most()
            if source is None:
                break
            partition = held[source].pop()
            target = levels.take_least()
            if levels.are_even:
                break
            self._give(topic, partition, target)
            moved += 1
        return moved

    def _give(self, topic: bytes, partition: int, target: int) -> None:
        source = self._owners[topic][partition]
        if source != NO_OWNER:
            self._loads[source] -= 1
        self._loads[target] += 1
        self._owners[topic][partition] = target


class LoadLevels:
    """A topic's subscribers from the least to the most loaded, taken from both ends, level by level.

    The least loaded are served in turn, each once a level; a member joins the turn when the level has risen to its own
    load. From the other end it is the same downwards. Loads change under way by exactly what was taken.
    """

    def __init__(self, loads: list[int], members: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda number: (loads[number], number))
        self._low_level = loads[self._members[0]] - 1
        self._low_end = 0
        self._low_next = 0
        self._high_level = loads[self._members[-1]] + 1
        self._high_start = len(self._members)
        self._high_end = len(self._members)
        self._high_next = len(self._members) - 1
        self.spread = loads[self._members[-1]] - loads[self._members[0]]

    @property
    def are_even(self) -> bool:
        """Whether the level at the top is at most one above that at the bottom."""
        return self._high_level - self._low_level <= 1

    def take_least(self) -> int:
        """Give the member whose turn it is to get a partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            members, loads = self._members, self._loads
            while self._low_end < len(members) and loads[members[self._low_end]] == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._members[self._low_next - 1]

    def take_most(self) -> int | None:
        """Give the member whose turn it is to lose a partition; None where nobody is left."""
        if self._high_next < self._high_start:
            members, loads = self._members, self._loads
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = loads[members[self._high_start - 1]]  # all above are excluded: step down to the next
            else:
                self._high_level -= 1
            while self._high_start > 0 and loads[members[self._high_start - 1]] == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._members[self._high_next + 1]

    def exclude_most(self) -> None:
        """Take the member that `take_most` gave last out of the turns: it has nothing to give."""
        members, place = self._members, self._high_next + 1
        members[place], members[self._high_end - 1] = members[self._high_end - 1], members[place]
        self._high_end -= 1
