"""The range assignor: each topic is cut into as many runs of partitions as it has subscribers.

Members are taken in one order for every topic (static members by their instance ids, then the others by their member
ids), so that topics with as many partitions and the same subscribers are cut alike: the partitions that belong together
in a join meet at one member. Nobody keeps anything: the order alone decides, which is Kafka's rule since 4.0.
"""

from __future__ import annotations

from tailrace.broker.groups.assignors.group_spec import Assignment, GroupSpec, java_string_order, uuid_order


def assign_ranges(spec: GroupSpec) -> dict[str, Assignment]:
    """Assign by ranges."""
    order = _ordered_members(spec)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic_id in sorted(spec.partition_counts, key=uuid_order):
        subscribers = [member_id for member_id in order if topic_id in spec.members[member_id].topic_ids]
        if not subscribers:
            continue
        share, extra = divmod(spec.partition_counts[topic_id], len(subscribers))
        first = 0
        for index, member_id in enumerate(subscribers):
            last = first + share + (index < extra)
            if last > first:
                assigned[member_id][topic_id] = frozenset(range(first, last))
            first = last
    return dict(assigned)


def _ordered_members(spec: GroupSpec) -> list[str]:
    def order(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, java_string_order(member_id if instance_id is None else instance_id)

    return sorted(spec.members, key=order)
