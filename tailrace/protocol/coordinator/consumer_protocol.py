"""What classic consumers put into JoinGroup and SyncGroup: their subscription, and their assignment.

The broker passes these bytes on without a look, except where it converts a group to the consumer protocol (KIP-848).
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bytes, Int32, Message, String, WireStruct, empty_list, field


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    user_data: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    owned_partitions: Annotated[list[OwnedTopicPartition], Array("1+", ignorable=True)] = field(
        default_factory=empty_list
    )
    generation_id: Annotated[int, Int32("2+", ignorable=True)] = -1
    rack_id: Annotated[str | None, String("3+", nullable="3+", ignorable=True)] = None


class OwnedTopicPartition(WireStruct):
    topic: Annotated[str, String("1+")] = ""
    partitions: Annotated[list[int], Array("1+", of=Int32())] = field(default_factory=empty_list)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: Annotated[list[AssignedTopicPartition], Array("0+")] = field(default_factory=empty_list)
    user_data: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None


class AssignedTopicPartition(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
