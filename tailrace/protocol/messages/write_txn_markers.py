"""WriteTxnMarkers (key 27): version 1, flexible from 1.

v1: a coordinator tells leaders to write commit and abort markers (KIP-98)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class WriteTxnMarkersRequest(Message, api_key=27, versions="1", flexible="1+"):
    markers: Annotated[list[WritableTxnMarker], Array("0+")] = field(default_factory=empty_list)


class WritableTxnMarker(WireStruct):
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    transaction_result: Annotated[bool, Bool("0+")] = False
    topics: Annotated[list[WritableTxnMarkerTopic], Array("0+")] = field(default_factory=empty_list)
    coordinator_epoch: Annotated[int, Int32("0+")] = 0


class WritableTxnMarkerTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partition_indexes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class WriteTxnMarkersResponse(Message, api_key=27, versions="1", flexible="1+"):
    markers: Annotated[list[WritableTxnMarkerResult], Array("0+")] = field(default_factory=empty_list)


class WritableTxnMarkerResult(WireStruct):
    producer_id: Annotated[int, Int64("0+")] = 0
    topics: Annotated[list[WritableTxnMarkerTopicResult], Array("0+")] = field(default_factory=empty_list)


class WritableTxnMarkerTopicResult(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[WritableTxnMarkerPartitionResult], Array("0+")] = field(default_factory=empty_list)


class WritableTxnMarkerPartitionResult(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
