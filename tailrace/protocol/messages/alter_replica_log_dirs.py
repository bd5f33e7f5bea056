"""AlterReplicaLogDirs (key 34): versions 1-2, flexible from 2.

v1: moves replicas between the log directories of a broker (KIP-113); a throttled answer leaves at once, and the
    client waits (KIP-219)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, WireStruct, empty_list, field


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="1-2", flexible="2+"):
    dirs: Annotated[list[AlterReplicaLogDir], Array("0+")] = field(default_factory=empty_list)


class AlterReplicaLogDir(WireStruct):
    path: Annotated[str, String("0+")] = ""
    topics: Annotated[list[AlterReplicaLogDirTopic], Array("0+")] = field(default_factory=empty_list)


class AlterReplicaLogDirTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[list[AlterReplicaLogDirTopicResult], Array("0+")] = field(default_factory=empty_list)


class AlterReplicaLogDirTopicResult(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[AlterReplicaLogDirPartitionResult], Array("0+")] = field(default_factory=empty_list)


class AlterReplicaLogDirPartitionResult(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
