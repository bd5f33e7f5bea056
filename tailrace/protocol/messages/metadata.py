"""Metadata (key 3): versions 0-13, flexible from 9.

v0: an empty list of topics asks for all
v1: null asks for all and an empty list for none; racks, the controller, internal topics
v2: the cluster's id (KIP-78)
v3: throttle time
v4: the client says whether a missing topic may be created
v5: offline replicas (KIP-112)
v6: a throttled answer leaves at once, and the client waits (KIP-219)
v7: leader epochs (KIP-320)
v8: authorized operations of topics and cluster (KIP-430)
v10: topic ids in the answer; asking by id did not work yet (KIP-516)
v11: the cluster's authorized operations moved to DescribeCluster (KIP-700)
v12: topics can be asked for by id (KIP-516)
v13: a top-level error, such as REBOOTSTRAP_REQUIRED (KIP-1102)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    topics: Annotated[list[MetadataRequestTopic] | None, Array("0+", nullable="1+")] = field(default_factory=empty_list)
    allow_auto_topic_creation: Annotated[bool, Bool("4+")] = True
    include_cluster_authorized_operations: Annotated[bool, Bool("8-10")] = False
    include_topic_authorized_operations: Annotated[bool, Bool("8+")] = False


class MetadataRequestTopic(WireStruct):
    topic_id: Annotated[bytes, Uuid("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, String("0+", nullable="10+")] = ""


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: Annotated[int, Int32("3+", ignorable=True)] = 0
    brokers: Annotated[list[MetadataResponseBroker], Array("0+")] = field(default_factory=empty_list)
    cluster_id: Annotated[str | None, String("2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[int, Int32("1+", ignorable=True)] = -1
    topics: Annotated[list[MetadataResponseTopic], Array("0+")] = field(default_factory=empty_list)
    cluster_authorized_operations: Annotated[int, Int32("8-10")] = -2147483648
    error_code: Annotated[int, Int16("13+", ignorable=True)] = 0


class MetadataResponseBroker(WireStruct):
    node_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("1+", nullable="1+", ignorable=True)] = None


class MetadataResponseTopic(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    name: Annotated[str | None, String("0+", nullable="12+")] = ""
    topic_id: Annotated[bytes, Uuid("10+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, Bool("1+", ignorable=True)] = False
    partitions: Annotated[list[MetadataResponsePartition], Array("0+")] = field(default_factory=empty_list)
    topic_authorized_operations: Annotated[int, Int32("8+")] = -2147483648


class MetadataResponsePartition(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    partition_index: Annotated[int, Int32("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("7+", ignorable=True)] = -1
    replica_nodes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    isr_nodes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    offline_replicas: Annotated[list[int], Array("5+", of=Int32(), ignorable=True)] = field(default_factory=empty_list)
