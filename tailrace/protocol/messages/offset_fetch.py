"""OffsetFetch (key 9): versions 1-10 (the last one unstable), flexible from 6.

v1: offsets from the group coordinator, no longer from ZooKeeper
v2: null asks for all topics of the group; a top-level error (KIP-88)
v3: throttle time
v4: a throttled answer leaves at once, and the client waits (KIP-219)
v5: leader epochs (KIP-320)
v7: require_stable: waits for the outcome of transactional commits (KIP-447)
v8: several groups in one request (KIP-709)
v9: member id and epoch of the new consumer protocol; STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID (KIP-848)
v10: topic ids in place of names; unstable (KIP-848)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class OffsetFetchRequest(Message, api_key=9, versions="1-10", flexible="6+", unstable=True):
    group_id: Annotated[str, String("0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Array("0-7", nullable="2-7")] = field(
        default_factory=empty_list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], Array("8+")] = field(default_factory=empty_list)
    require_stable: Annotated[bool, Bool("7+")] = False


class OffsetFetchRequestTopic(WireStruct):
    name: Annotated[str, String("0-7")] = ""
    partition_indexes: Annotated[list[int], Array("0-7", of=Int32())] = field(default_factory=empty_list)


class OffsetFetchRequestGroup(WireStruct):
    group_id: Annotated[str, String("8+")] = ""
    member_id: Annotated[str | None, String("9+", nullable="9+", ignorable=True)] = None
    member_epoch: Annotated[int, Int32("9+", ignorable=True)] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, Array("8+", nullable="8+")] = field(
        default_factory=empty_list
    )


class OffsetFetchRequestTopics(WireStruct):
    name: Annotated[str, String("8-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("10+", ignorable=True)] = ZERO_UUID
    partition_indexes: Annotated[list[int], Array("8+", of=Int32())] = field(default_factory=empty_list)


class OffsetFetchResponse(Message, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Annotated[int, Int32("3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Array("0-7")] = field(default_factory=empty_list)
    error_code: Annotated[int, Int16("2-7", ignorable=True)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Array("8+")] = field(default_factory=empty_list)


class OffsetFetchResponseTopic(WireStruct):
    name: Annotated[str, String("0-7")] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], Array("0-7")] = field(default_factory=empty_list)


class OffsetFetchResponsePartition(WireStruct):
    partition_index: Annotated[int, Int32("0-7")] = 0
    committed_offset: Annotated[int, Int64("0-7")] = 0
    committed_leader_epoch: Annotated[int, Int32("5-7", ignorable=True)] = -1
    metadata: Annotated[str | None, String("0-7", nullable="0-7")] = ""
    error_code: Annotated[int, Int16("0-7")] = 0


class OffsetFetchResponseGroup(WireStruct):
    group_id: Annotated[str, String("8+")] = ""
    topics: Annotated[list[OffsetFetchResponseTopics], Array("8+")] = field(default_factory=empty_list)
    error_code: Annotated[int, Int16("8+")] = 0


class OffsetFetchResponseTopics(WireStruct):
    name: Annotated[str, String("8-9", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[OffsetFetchResponsePartitions], Array("8+")] = field(default_factory=empty_list)


class OffsetFetchResponsePartitions(WireStruct):
    partition_index: Annotated[int, Int32("8+")] = 0
    committed_offset: Annotated[int, Int64("8+")] = 0
    committed_leader_epoch: Annotated[int, Int32("8+", ignorable=True)] = -1
    metadata: Annotated[str | None, String("8+", nullable="8+")] = ""
    error_code: Annotated[int, Int16("8+")] = 0
