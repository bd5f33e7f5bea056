"""OffsetCommit (key 8): versions 2-10 (the last one unstable), flexible from 8.

v2: retention time in the request
v3: throttle time
v4: a throttled answer leaves at once, and the client waits (KIP-219)
v5: no retention time any more, the broker's setting decides (KIP-211)
v6: the leader epoch of the committed offset (KIP-320)
v7: group instance id (KIP-345)
v9: members of consumer groups of the new protocol; STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND (KIP-848)
v10: topic ids in place of names; unstable (KIP-848)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class OffsetCommitRequest(Message, api_key=8, versions="2-10", flexible="8+", unstable=True):
    group_id: Annotated[str, String("0+")] = ""
    generation_id_or_member_epoch: Annotated[int, Int32("1+", ignorable=True)] = -1
    member_id: Annotated[str, String("1+", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, String("7+", nullable="7+")] = None
    retention_time_ms: Annotated[int, Int64("2-4", ignorable=True)] = -1
    topics: Annotated[list[OffsetCommitRequestTopic], Array("0+")] = field(default_factory=empty_list)


class OffsetCommitRequestTopic(WireStruct):
    name: Annotated[str, String("0-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[OffsetCommitRequestPartition], Array("0+")] = field(default_factory=empty_list)


class OffsetCommitRequestPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    committed_offset: Annotated[int, Int64("0+")] = 0
    committed_leader_epoch: Annotated[int, Int32("6+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, String("0+", nullable="0+")] = ""


class OffsetCommitResponse(Message, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: Annotated[int, Int32("3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetCommitResponseTopic], Array("0+")] = field(default_factory=empty_list)


class OffsetCommitResponseTopic(WireStruct):
    name: Annotated[str, String("0-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[OffsetCommitResponsePartition], Array("0+")] = field(default_factory=empty_list)


class OffsetCommitResponsePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
