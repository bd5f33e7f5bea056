"""The client: `from tailrace.client import Producer, Consumer, Admin`, for Tailrace and for Apache Kafka alike.

What is named here is the public surface. A name is imported when it is first used: a broker, which needs nothing of
this package but `connection`, does not pay for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.client.admin import Admin
    from tailrace.client.bulk import BulkDelivery, BulkInterrupted, WrittenRange
    from tailrace.client.cluster import Cluster
    from tailrace.client.consumer import Consumer
    from tailrace.client.consumer_record import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp
    from tailrace.client.delivery import Delivery, RecordMetadata
    from tailrace.client.errors import (
        AbortableError,
        AuthenticationFailed,
        AuthorizationFailed,
        BrokerError,
        BufferExhausted,
        ClientClosed,
        ClientError,
        CommitFailed,
        ConnectionLost,
        FatalError,
        InvalidState,
        LogTruncated,
        NoBrokerAvailable,
        NoOffsetForPartition,
        OperationTimedOut,
        ProducerFenced,
        RecordTooLarge,
        RequestTimedOut,
        RetriableError,
        SerializationFailed,
        TransactionAborted,
        UnsupportedVersion,
        WokenUp,
    )
    from tailrace.client.group_metadata import ConsumerGroupMetadata
    from tailrace.client.interceptors import ProducerInterceptor, ProducerRecord
    from tailrace.client.oauth import BearerToken, TokenProvider
    from tailrace.client.producer import Producer
    from tailrace.client.rebalance_listener import ConsumerInterceptor, RebalanceListener
    from tailrace.protocol.error_codes import ErrorCode
    from tailrace.protocol.topic_partition import TopicPartition
    from tailrace.settings.client_config import AdminConfig, ConsumerConfig, ProducerConfig
    from tailrace.settings.config_error import ConfigError

__all__ = [
    "AbortableError",
    "Admin",
    "AdminConfig",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "BearerToken",
    "BrokerError",
    "BufferExhausted",
    "BulkDelivery",
    "BulkInterrupted",
    "ClientClosed",
    "ClientError",
    "Cluster",
    "CommitFailed",
    "ConfigError",
    "ConnectionLost",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "Delivery",
    "ErrorCode",
    "FatalError",
    "InvalidState",
    "LogTruncated",
    "NoBrokerAvailable",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OperationTimedOut",
    "Producer",
    "ProducerConfig",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "RebalanceListener",
    "RecordMetadata",
    "RecordTooLarge",
    "RequestTimedOut",
    "RetriableError",
    "SerializationFailed",
    "TokenProvider",
    "TopicPartition",
    "TransactionAborted",
    "UnsupportedVersion",
    "WokenUp",
    "WrittenRange",
]

_ELSEWHERE = {
    "Admin": "tailrace.client.admin",
    "AdminConfig": "tailrace.settings.client_config",
    "BulkDelivery": "tailrace.client.bulk",
    "BulkInterrupted": "tailrace.client.bulk",
    "BearerToken": "tailrace.client.oauth",
    "TokenProvider": "tailrace.client.oauth",
    "Cluster": "tailrace.client.cluster",
    "ConfigError": "tailrace.settings.config_error",
    "Consumer": "tailrace.client.consumer",
    "ConsumerConfig": "tailrace.settings.client_config",
    "ConsumerGroupMetadata": "tailrace.client.group_metadata",
    "ConsumerInterceptor": "tailrace.client.rebalance_listener",
    "ConsumerRecord": "tailrace.client.consumer_record",
    "Delivery": "tailrace.client.delivery",
    "ErrorCode": "tailrace.protocol.error_codes",
    "OffsetAndMetadata": "tailrace.client.consumer_record",
    "OffsetAndTimestamp": "tailrace.client.consumer_record",
    "Producer": "tailrace.client.producer",
    "ProducerConfig": "tailrace.settings.client_config",
    "ProducerInterceptor": "tailrace.client.interceptors",
    "ProducerRecord": "tailrace.client.interceptors",
    "RebalanceListener": "tailrace.client.rebalance_listener",
    "RecordMetadata": "tailrace.client.delivery",
    "TopicPartition": "tailrace.protocol.topic_partition",
    "WrittenRange": "tailrace.client.bulk",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_ELSEWHERE.get(name, "tailrace.client.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
