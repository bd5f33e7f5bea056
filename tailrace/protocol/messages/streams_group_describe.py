"""StreamsGroupDescribe (key 89): version 0 (unstable), flexible from 0.

v0: Kafka Streams groups, topology and tasks; unstable, not advertised (KIP-1071)
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
    Nested,
    String,
    UInt16,
    WireStruct,
    empty_list,
    field,
)


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0", flexible="0+", unstable=True):
    group_ids: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    include_authorized_operations: Annotated[bool, Bool("0+")] = False


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    groups: Annotated[list[DescribedGroup], Array("0+")] = field(default_factory=empty_list)


class DescribedGroup(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    group_id: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("0+")] = ""
    group_epoch: Annotated[int, Int32("0+")] = 0
    assignment_epoch: Annotated[int, Int32("0+")] = 0
    topology: Annotated[Topology | None, Nested("0+", nullable="0+")] = None
    members: Annotated[list[Member], Array("0+")] = field(default_factory=empty_list)
    authorized_operations: Annotated[int, Int32("0+")] = -2147483648


class Topology(WireStruct):
    epoch: Annotated[int, Int32("0+")] = 0
    subtopologies: Annotated[list[Subtopology] | None, Array("0+", nullable="0+")] = None


class Subtopology(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    source_topics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    repartition_sink_topics: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    state_changelog_topics: Annotated[list[TopicInfo], Array("0+")] = field(default_factory=empty_list)
    repartition_source_topics: Annotated[list[TopicInfo], Array("0+")] = field(default_factory=empty_list)


class TopicInfo(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    topic_configs: Annotated[list[KeyValue], Array("0+")] = field(default_factory=empty_list)


class KeyValue(WireStruct):
    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


class Member(WireStruct):
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    topology_epoch: Annotated[int, Int32("0+")] = 0
    process_id: Annotated[str, String("0+")] = ""
    user_endpoint: Annotated[Endpoint | None, Nested("0+", nullable="0+")] = None
    client_tags: Annotated[list[KeyValue], Array("0+")] = field(default_factory=empty_list)
    task_offsets: Annotated[list[TaskOffset], Array("0+")] = field(default_factory=empty_list)
    task_end_offsets: Annotated[list[TaskOffset], Array("0+")] = field(default_factory=empty_list)
    assignment: Annotated[Assignment, Nested("0+")] = field(default_factory=lambda: Assignment())
    target_assignment: Annotated[Assignment, Nested("0+")] = field(default_factory=lambda: Assignment())
    is_classic: Annotated[bool, Bool("0+")] = False


class Endpoint(WireStruct):
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


class TaskOffset(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    partition: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


class Assignment(WireStruct):
    active_tasks: Annotated[list[TaskIds], Array("0+")] = field(default_factory=empty_list)
    standby_tasks: Annotated[list[TaskIds], Array("0+")] = field(default_factory=empty_list)
    warmup_tasks: Annotated[list[TaskIds], Array("0+")] = field(default_factory=empty_list)


class TaskIds(WireStruct):
    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
