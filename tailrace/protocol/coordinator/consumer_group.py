"""A group of the consumer protocol (KIP-848) in `__consumer_offsets`: epochs, members, assignments."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.coordinator.record_types import CoordinatorKey, CoordinatorValue
from tailrace.protocol.schema import (
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    Nested,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class ConsumerGroupMetadataKey(CoordinatorKey, record_type=3, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""


class ConsumerGroupMetadataValue(CoordinatorValue, record_type=3, versions="0", flexible="0+"):
    epoch: Annotated[int, Int32("0+")] = 0
    metadata_hash: Annotated[int, Int64("0+", tag=0, tagged="0+")] = 0


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, record_type=4, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""


class ConsumerGroupPartitionMetadataValue(CoordinatorValue, record_type=4, versions="0", flexible="0+"):
    topics: Annotated[list[TopicMetadata], Array("0+")] = field(default_factory=empty_list)


class TopicMetadata(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""
    num_partitions: Annotated[int, Int32("0+")] = 0
    partition_metadata: Annotated[list[PartitionMetadata], Array("0+")] = field(default_factory=empty_list)


class PartitionMetadata(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    racks: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)


class ConsumerGroupMemberMetadataKey(CoordinatorKey, record_type=5, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


class ConsumerGroupMemberMetadataValue(CoordinatorValue, record_type=5, versions="0", flexible="0+"):
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    subscribed_topic_names: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    subscribed_topic_regex: Annotated[str | None, String("0+", nullable="0+")] = ""
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    server_assignor: Annotated[str | None, String("0+", nullable="0+")] = ""
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None, Nested("0+", nullable="0+", tag=0, tagged="0+")
    ] = field(default_factory=lambda: ClassicMemberMetadata())


class ClassicMemberMetadata(WireStruct):
    session_timeout_ms: Annotated[int, Int32("0+")] = 0
    supported_protocols: Annotated[list[ClassicProtocol], Array("0+")] = field(default_factory=empty_list)


class ClassicProtocol(WireStruct):
    name: Annotated[str, String("0+")] = ""
    metadata: Annotated[bytes, Bytes("0+")] = b""


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=6, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""


class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue, record_type=6, versions="0", flexible="0+"):
    assignment_epoch: Annotated[int, Int32("0+")] = 0


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=7, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=7, versions="0", flexible="0+"):
    topic_partitions: Annotated[list[TopicPartition], Array("0+")] = field(default_factory=empty_list)


class TopicPartition(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=8, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=8, versions="0", flexible="0+"):
    member_epoch: Annotated[int, Int32("0+")] = 0
    previous_member_epoch: Annotated[int, Int32("0+")] = 0
    state: Annotated[int, Int8("0+")] = 0
    assigned_partitions: Annotated[list[TopicPartitions], Array("0+")] = field(default_factory=empty_list)
    partitions_pending_revocation: Annotated[list[TopicPartitions], Array("0+")] = field(default_factory=empty_list)


class TopicPartitions(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class ConsumerGroupRegularExpressionKey(CoordinatorKey, record_type=16, versions="0", flexible="none"):
    group_id: Annotated[str, String("0")] = ""
    regular_expression: Annotated[str, String("0")] = ""


class ConsumerGroupRegularExpressionValue(CoordinatorValue, record_type=16, versions="0", flexible="0+"):
    topics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    version: Annotated[int, Int64("0+")] = 0
    timestamp: Annotated[int, Int64("0+")] = 0
