"""Who shall lead a partition from now on, when an administrator asks for an election (KIP-183, KIP-460).

Pure: a partition's registration and the brokers that answer in, its successor out, or an `ApiError` with the reason why
nothing changes. The handler writes the successor down; the brokers follow what the metadata store then says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import IntEnum

from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


class ElectionType(IntEnum):
    """What an election may cost: a preferred one nothing, an unclean one the records that the elected does not have."""

    PREFERRED = 0
    UNCLEAN = 1


def elect(partition: PartitionRegistration, kind: ElectionType, alive: Collection[int]) -> PartitionRegistration:
    """Give the partition with its new leader; ELECTION_NOT_NEEDED where it has the right one."""
    if kind is ElectionType.PREFERRED:
        return _elect_preferred(partition, alive)
    return _elect_unclean(partition, alive)


def _elect_preferred(partition: PartitionRegistration, alive: Collection[int]) -> PartitionRegistration:
    preferred = partition.replicas[0]
    if partition.leader == preferred and preferred in alive:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already.")
    if preferred not in alive or preferred not in partition.isr:
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"The preferred replica {preferred} is not there or not in sync."
        )
    return _led_by(partition, preferred, partition.isr)


def _elect_unclean(partition: PartitionRegistration, alive: Collection[int]) -> PartitionRegistration:
    if partition.leader in alive:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader.")
    in_sync = [node for node in partition.replicas if node in partition.isr and node in alive]
    if in_sync:
        return _led_by(partition, in_sync[0], partition.isr)
    others = [node for node in partition.replicas if node in alive]
    if not others:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is there.")
    # What the others had and this one has not is given up: from now on its log is the partition's.
    return _led_by(partition, others[0], (others[0],))


def _led_by(partition: PartitionRegistration, leader: int, isr: tuple[int, ...]) -> PartitionRegistration:
    return replace(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )
