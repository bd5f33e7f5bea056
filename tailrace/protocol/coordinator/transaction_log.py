"""A transactional id in `__transaction_state`: its producer, its state, the partitions it touched."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.coordinator.record_types import CoordinatorKey, CoordinatorValue
from tailrace.protocol.schema import Array, Int8, Int16, Int32, Int64, String, WireStruct, empty_list, field


class TransactionLogKey(CoordinatorKey, record_type=0, versions="0", flexible="none"):
    transactional_id: Annotated[str, String("0")] = ""


class TransactionLogValue(CoordinatorValue, record_type=0, versions="0-1", flexible="1+"):
    producer_id: Annotated[int, Int64("0+")] = 0
    previous_producer_id: Annotated[int, Int64("1+", tag=0, tagged="1+")] = -1
    next_producer_id: Annotated[int, Int64("1+", tag=1, tagged="1+")] = -1
    producer_epoch: Annotated[int, Int16("0+")] = 0
    next_producer_epoch: Annotated[int, Int16("1+", tag=3, tagged="1+")] = -1
    transaction_timeout_ms: Annotated[int, Int32("0+")] = 0
    transaction_status: Annotated[int, Int8("0+")] = 0
    transaction_partitions: Annotated[list[PartitionsSchema] | None, Array("0+", nullable="0+")] = field(
        default_factory=empty_list
    )
    transaction_last_update_timestamp_ms: Annotated[int, Int64("0+")] = 0
    transaction_start_timestamp_ms: Annotated[int, Int64("0+")] = 0
    client_transaction_version: Annotated[int, Int16("1+", tag=2, tagged="1+")] = 0


class PartitionsSchema(WireStruct):
    topic: Annotated[str, String("0+")] = ""
    partition_ids: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
