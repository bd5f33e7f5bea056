"""StreamsGroupHeartbeat (key 88): version 0 (unstable), flexible from 0.

v0: a Kafka Streams member's topology and tasks; unstable, not advertised (KIP-1071)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    String,
    UInt16,
    WireStruct,
    empty_list,
    field,
)


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0", flexible="0+", unstable=True):
    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    endpoint_information_epoch: Annotated[int, Int32("0+")] = 0
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    topology: Annotated[Topology | None, Nested("0+", nullable="0+")] = None
    active_tasks: Annotated[list[TaskIdsRequest] | None, Array("0+", nullable="0+")] = None
    standby_tasks: Annotated[list[TaskIdsRequest] | None, Array("0+", nullable="0+")] = None
    warmup_tasks: Annotated[list[TaskIdsRequest] | None, Array("0+", nullable="0+")] = None
    process_id: Annotated[str | None, String("0+", nullable="0+")] = None
    user_endpoint: Annotated[EndpointRequest | None, Nested("0+", nullable="0+")] = None
    client_tags: Annotated[list[KeyValue] | None, Array("0+", nullable="0+")] = None
    task_offsets: Annotated[list[TaskOffset] | None, Array("0+", nullable="0+")] = None
    task_end_offsets: Annotated[list[TaskOffset] | None, Array("0+", nullable="0+")] = None
    shutdown_application: Annotated[bool, Bool("0+")] = False


class Topology(WireStruct):
    epoch: Annotated[int, Int32("0+")] = 0
    subtopologies: Annotated[list[Subtopology], Array("0+")] = field(default_factory=empty_list)


class Subtopology(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    source_topics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    source_topic_regex: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    state_changelog_topics: Annotated[list[TopicInfo], Array("0+")] = field(default_factory=empty_list)
    repartition_sink_topics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    repartition_source_topics: Annotated[list[TopicInfo], Array("0+")] = field(default_factory=empty_list)
    copartition_groups: Annotated[list[CopartitionGroup], Array("0+")] = field(default_factory=empty_list)


class TopicInfo(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    topic_configs: Annotated[list[KeyValue], Array("0+")] = field(default_factory=empty_list)


class KeyValue(WireStruct):
    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


class CopartitionGroup(WireStruct):
    source_topics: Annotated[list[int], Array("0+", of=Int16())] = field(default_factory=empty_list)
    source_topic_regex: Annotated[list[int], Array("0+", of=Int16())] = field(default_factory=empty_list)
    repartition_source_topics: Annotated[list[int], Array("0+", of=Int16())] = field(default_factory=empty_list)


class TaskIdsRequest(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class EndpointRequest(WireStruct):
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


class TaskOffset(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    partition: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    heartbeat_interval_ms: Annotated[int, Int32("0+")] = 0
    acceptable_recovery_lag: Annotated[int, Int32("0+")] = 0
    task_offset_interval_ms: Annotated[int, Int32("0+")] = 0
    status: Annotated[list[Status] | None, Array("0+", nullable="0+")] = None
    active_tasks: Annotated[list[TaskIdsResponse] | None, Array("0+", nullable="0+")] = None
    standby_tasks: Annotated[list[TaskIdsResponse] | None, Array("0+", nullable="0+")] = None
    warmup_tasks: Annotated[list[TaskIdsResponse] | None, Array("0+", nullable="0+")] = None
    endpoint_information_epoch: Annotated[int, Int32("0+")] = 0
    partitions_by_user_endpoint: Annotated[list[EndpointToPartitions] | None, Array("0+", nullable="0+")] = None


class Status(WireStruct):
    status_code: Annotated[int, Int8("0+")] = 0
    status_detail: Annotated[str, String("0+")] = ""


class TaskIdsResponse(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class EndpointToPartitions(WireStruct):
    user_endpoint: Annotated[EndpointResponse, Nested("0+")] = field(default_factory=lambda: EndpointResponse())
    active_partitions: Annotated[list[TopicPartition], Array("0+")] = field(default_factory=empty_list)
    standby_partitions: Annotated[list[TopicPartition], Array("0+")] = field(default_factory=empty_list)


class EndpointResponse(WireStruct):
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


class TopicPartition(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
