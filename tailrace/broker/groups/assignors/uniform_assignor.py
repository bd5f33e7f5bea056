"""The uniform assignor: members get equally many partitions, and keep as many of theirs as that allows.

Where all members want the same topics, one pass is enough (below); where they do not, `uniform_balancer` goes about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace.broker.groups.assignors.group_spec import Assignment, GroupSpec, uuid_order
from tailrace.broker.groups.assignors.uniform_balancer import UniformBalancer


def assign_uniformly(spec: GroupSpec) -> dict[str, Assignment]:
    """Assign evenly."""
    if not spec.members:
        return {}
    return _HomogeneousGroup(spec).assign() if spec.is_homogeneous else UniformBalancer(spec).assign()


@dataclass(slots=True)
class _Member:
    member_id: str
    kept: dict[bytes, set[int]]
    room: int


@dataclass(slots=True)
class _HomogeneousGroup:
    """Every member may have `share` partitions, and `extras` of them one more."""

    spec: GroupSpec
    topics: list[bytes] = field(default_factory=list[bytes])
    free: list[tuple[bytes, int]] = field(default_factory=list[tuple[bytes, int]])

    def assign(self) -> dict[str, Assignment]:
        spec = self.spec
        wanted = next(iter(spec.members.values())).topic_ids
        self.topics = sorted(wanted, key=uuid_order)
        if not self.topics:
            return {}
        partition_count = sum(spec.partition_counts[topic] for topic in self.topics)
        self.free = self._unowned()
        members = self._keep(*divmod(partition_count, len(spec.members)))
        pool = iter(self.free)
        for member in members:
            for _, (topic, partition) in zip(range(member.room), pool, strict=False):
                member.kept.setdefault(topic, set()).add(partition)
        assert next(pool, None) is None, "partitions were left without an owner"
        return {
            m.member_id: {topic: frozenset(partitions) for topic, partitions in m.kept.items() if partitions}
            for m in members
        }

    def _unowned(self) -> list[tuple[bytes, int]]:
        owned: dict[bytes, set[int]] = {topic: set() for topic in self.topics}
        for member in self.spec.members.values():
            for topic, partitions in member.assignment.items():
                owned.setdefault(topic, set()).update(partitions)
        counts = self.spec.partition_counts
        return [(topic, p) for topic in self.topics for p in range(counts[topic]) if p not in owned[topic]]

    def _keep(self, share: int, extras: int) -> list[_Member]:
        """Let each member keep what it may; what is above goes into the pool.

        A member with room left gives its claim to an extra partition up for as long as others after it could use it.
        """
        members: list[_Member] = []
        for index, member_id in enumerate(sorted(self.spec.members)):
            may_have_extra = extras > 0
            member = _Member(member_id, {}, share + may_have_extra)
            self._keep_own(member)
            if member.room > 0 and may_have_extra and len(self.spec.members) - index > extras:
                member.room -= 1
                may_have_extra = False
            extras -= may_have_extra
            members.append(member)
        return members

    def _keep_own(self, member: _Member) -> None:
        own = self.spec.members[member.member_id].assignment
        for topic in self.topics:
            count = self.spec.partition_counts[topic]
            partitions = sorted(partition for partition in own.get(topic, ()) if partition < count)
            kept, given_up = partitions[: member.room], partitions[member.room :]
            if kept:
                member.kept[topic] = set(kept)
            member.room -= len(kept)
            self.free += [(topic, partition) for partition in given_up]
