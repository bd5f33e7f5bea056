"""CreateTopics (key 19): versions 2-7, flexible from 5.

v2: validate only; a message for each topic; throttle time
v3: a throttled answer leaves at once, and the client waits (KIP-219)
v4: partitions and replication factor may be left to the broker's defaults (KIP-464)
v5: the new topic's configuration in the answer (KIP-525)
v6: THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7: the new topic's id (KIP-516)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    topics: Annotated[list[CreatableTopic], Array("0+")] = field(default_factory=empty_list)
    timeout_ms: Annotated[int, Int32("0+")] = 60000
    validate_only: Annotated[bool, Bool("1+")] = False


class CreatableTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    num_partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    assignments: Annotated[list[CreatableReplicaAssignment], Array("0+")] = field(default_factory=empty_list)
    configs: Annotated[list[CreatableTopicConfig], Array("0+")] = field(default_factory=empty_list)


class CreatableReplicaAssignment(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    broker_ids: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class CreatableTopicConfig(WireStruct):
    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""


class CreateTopicsResponse(Message, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    topics: Annotated[list[CreatableTopicResult], Array("0+")] = field(default_factory=empty_list)


class CreatableTopicResult(WireStruct):
    name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[bytes, Uuid("7+", ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("1+", nullable="0+", ignorable=True)] = ""
    topic_config_error_code: Annotated[int, Int16("5+", tag=0, tagged="5+", ignorable=True)] = 0
    num_partitions: Annotated[int, Int32("5+", ignorable=True)] = -1
    replication_factor: Annotated[int, Int16("5+", ignorable=True)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Array("5+", nullable="5+", ignorable=True)] = field(
        default_factory=empty_list
    )


class CreatableTopicConfigs(WireStruct):
    name: Annotated[str, String("5+")] = ""
    value: Annotated[str | None, String("5+", nullable="5+")] = ""
    read_only: Annotated[bool, Bool("5+")] = False
    config_source: Annotated[int, Int8("5+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, Bool("5+")] = False
