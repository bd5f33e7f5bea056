"""The APIs of Kafka 4.1: their keys, their versions, and which message and header each version has.

The table repeats what the declarations under `messages/` say, so that a broker can start, advertise and read headers
without importing all of them; a test holds both equal. `versions` are served, `advertised` are shown to clients. They
differ where Kafka keeps a last version unstable, and for Produce: librdkafka stops compressing unless Produce is
advertised from version 0 (KAFKA-18659).

Which of these APIs a broker really serves is decided by its handlers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import cast

from tailrace.protocol.schema import VERSION_LIMIT, Message, Versions


class ApiKey(IntEnum):
    """An API, as the request header names it."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    @property
    def api(self) -> Api:
        """Give what is known about this API."""
        return APIS[self]


@dataclass(frozen=True, slots=True)
class Api:
    """One API: `flexible_from` is the first version with flexible encoding, `VERSION_LIMIT` where there is none."""

    key: ApiKey
    versions: Versions
    advertised: Versions
    flexible_from: int
    is_client_facing: bool

    @property
    def name(self) -> str:
        """Kafka's name, such as `ListOffsets`."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    @property
    def module_name(self) -> str:
        """The name of the module of this API, among messages and among handlers."""
        return self.key.name.lower()

    @property
    def request_class(self) -> type[Message]:
        """The request, imported at first use."""
        return _message_class(self.key, "Request")

    @property
    def response_class(self) -> type[Message]:
        """The response, imported at first use."""
        return _message_class(self.key, "Response")

    def request_header_version(self, version: int) -> int:
        """Give the version of the header in front of a request."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """Give the version of the header in front of a response.

        It is always 0 for ApiVersions: its client may not know what the broker understands, and must be able to read
        the answer in any case. One byte more, and librdkafka takes it for a length.
        """
        return 1 if version >= self.flexible_from and self.key is not ApiKey.API_VERSIONS else 0


def find_message_class(type_name: str) -> type[Message]:
    """Give the class of `FetchRequest`, `FetchResponse`, `RequestHeader` and so on; ValueError for no such message."""
    if type_name in ("RequestHeader", "ResponseHeader"):
        return cast("type[Message]", getattr(import_module("tailrace.protocol.messages.headers"), type_name))
    for kind in ("Request", "Response"):
        api = _apis_by_name().get(type_name.removesuffix(kind))
        if api is not None and type_name.endswith(kind):
            return _message_class(api.key, kind)
    raise ValueError(f"no message is named {type_name!r}; names are as FetchRequest, FetchResponse, RequestHeader")


@cache
def _apis_by_name() -> dict[str, Api]:
    return {api.name: api for api in APIS.values()}


@cache
def _message_class(key: ApiKey, kind: str) -> type[Message]:
    api = APIS[key]
    module = import_module(f"tailrace.protocol.messages.{api.module_name}")
    return cast("type[Message]", getattr(module, api.name + kind))


def _api(
    key: ApiKey,
    versions: str,
    flexible_from: int | None,
    *,
    advertised: str | None = None,
    between_brokers: bool = False,
) -> Api:
    return Api(
        key=key,
        versions=Versions.parse(versions),
        advertised=Versions.parse(versions if advertised is None else advertised),
        flexible_from=VERSION_LIMIT + 1 if flexible_from is None else flexible_from,
        is_client_facing=not between_brokers,
    )


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(ApiKey.PRODUCE, "3-13", 9, advertised="0-13"),
        _api(ApiKey.FETCH, "4-18", 12),
        _api(ApiKey.LIST_OFFSETS, "1-10", 6),
        _api(ApiKey.METADATA, "0-13", 9),
        _api(ApiKey.OFFSET_COMMIT, "2-10", 8, advertised="2-9"),
        _api(ApiKey.OFFSET_FETCH, "1-10", 6, advertised="1-9"),
        _api(ApiKey.FIND_COORDINATOR, "0-6", 3),
        _api(ApiKey.JOIN_GROUP, "0-9", 6),
        _api(ApiKey.HEARTBEAT, "0-4", 4),
        _api(ApiKey.LEAVE_GROUP, "0-5", 4),
        _api(ApiKey.SYNC_GROUP, "0-5", 4),
        _api(ApiKey.DESCRIBE_GROUPS, "0-6", 5),
        _api(ApiKey.LIST_GROUPS, "0-5", 3),
        _api(ApiKey.SASL_HANDSHAKE, "0-1", None),
        _api(ApiKey.API_VERSIONS, "0-4", 3),
        _api(ApiKey.CREATE_TOPICS, "2-7", 5),
        _api(ApiKey.DELETE_TOPICS, "1-6", 4),
        _api(ApiKey.DELETE_RECORDS, "0-2", 2),
        _api(ApiKey.INIT_PRODUCER_ID, "0-6", 2, advertised="0-5"),
        _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "2-4", 4),
        _api(ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", 3),
        _api(ApiKey.ADD_OFFSETS_TO_TXN, "0-4", 3),
        _api(ApiKey.END_TXN, "0-5", 3),
        _api(ApiKey.WRITE_TXN_MARKERS, "1", 1),
        _api(ApiKey.TXN_OFFSET_COMMIT, "0-5", 3),
        _api(ApiKey.DESCRIBE_ACLS, "1-3", 2),
        _api(ApiKey.CREATE_ACLS, "1-3", 2),
        _api(ApiKey.DELETE_ACLS, "1-3", 2),
        _api(ApiKey.DESCRIBE_CONFIGS, "1-4", 4),
        _api(ApiKey.ALTER_CONFIGS, "0-2", 2),
        _api(ApiKey.ALTER_REPLICA_LOG_DIRS, "1-2", 2),
        _api(ApiKey.DESCRIBE_LOG_DIRS, "1-4", 2),
        _api(ApiKey.SASL_AUTHENTICATE, "0-2", 2),
        _api(ApiKey.CREATE_PARTITIONS, "0-3", 2),
        _api(ApiKey.CREATE_DELEGATION_TOKEN, "1-3", 2),
        _api(ApiKey.RENEW_DELEGATION_TOKEN, "1-2", 2),
        _api(ApiKey.EXPIRE_DELEGATION_TOKEN, "1-2", 2),
        _api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "1-3", 2),
        _api(ApiKey.DELETE_GROUPS, "0-2", 2),
        _api(ApiKey.ELECT_LEADERS, "0-2", 2),
        _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1", 1),
        _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0-1", 0),
        _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "0", 0),
        _api(ApiKey.OFFSET_DELETE, "0", None),
        _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "0-1", 1),
        _api(ApiKey.ALTER_CLIENT_QUOTAS, "0-1", 1),
        _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "0", 0),
        _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "0", 0),
        _api(ApiKey.VOTE, "0-2", 0, between_brokers=True),
        _api(ApiKey.BEGIN_QUORUM_EPOCH, "0-1", 1, between_brokers=True),
        _api(ApiKey.END_QUORUM_EPOCH, "0-1", 1, between_brokers=True),
        _api(ApiKey.DESCRIBE_QUORUM, "0-2", 0),
        _api(ApiKey.ALTER_PARTITION, "2-3", 0, between_brokers=True),
        _api(ApiKey.UPDATE_FEATURES, "0-2", 0),
        _api(ApiKey.ENVELOPE, "0", 0, between_brokers=True),
        _api(ApiKey.FETCH_SNAPSHOT, "0-1", 0, between_brokers=True),
        _api(ApiKey.DESCRIBE_CLUSTER, "0-2", 0),
        _api(ApiKey.DESCRIBE_PRODUCERS, "0", 0),
        _api(ApiKey.BROKER_REGISTRATION, "0-4", 0, between_brokers=True),
        _api(ApiKey.BROKER_HEARTBEAT, "0-1", 0, between_brokers=True),
        _api(ApiKey.UNREGISTER_BROKER, "0", 0),
        _api(ApiKey.DESCRIBE_TRANSACTIONS, "0", 0),
        _api(ApiKey.LIST_TRANSACTIONS, "0-2", 0),
        _api(ApiKey.ALLOCATE_PRODUCER_IDS, "0", 0, between_brokers=True),
        _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "0-1", 0),
        _api(ApiKey.CONSUMER_GROUP_DESCRIBE, "0-1", 0),
        _api(ApiKey.CONTROLLER_REGISTRATION, "0", 0, between_brokers=True),
        _api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "0", 0),
        _api(ApiKey.PUSH_TELEMETRY, "0", 0),
        _api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "0", 0, between_brokers=True),
        _api(ApiKey.LIST_CONFIG_RESOURCES, "0-1", 0),
        _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0", 0),
        _api(ApiKey.SHARE_GROUP_HEARTBEAT, "1", 0),
        _api(ApiKey.SHARE_GROUP_DESCRIBE, "1", 0),
        _api(ApiKey.SHARE_FETCH, "1", 0),
        _api(ApiKey.SHARE_ACKNOWLEDGE, "1", 0),
        _api(ApiKey.ADD_RAFT_VOTER, "0", 0),
        _api(ApiKey.REMOVE_RAFT_VOTER, "0", 0),
        _api(ApiKey.UPDATE_RAFT_VOTER, "0", 0, between_brokers=True),
        _api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "0", 0, between_brokers=True),
        _api(ApiKey.READ_SHARE_GROUP_STATE, "0", 0, between_brokers=True),
        _api(ApiKey.WRITE_SHARE_GROUP_STATE, "0", 0, between_brokers=True),
        _api(ApiKey.DELETE_SHARE_GROUP_STATE, "0", 0, between_brokers=True),
        _api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "0", 0, between_brokers=True),
        _api(ApiKey.STREAMS_GROUP_HEARTBEAT, "0", 0, advertised="none"),
        _api(ApiKey.STREAMS_GROUP_DESCRIBE, "0", 0, advertised="none"),
        _api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "0", 0),
        _api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "0", 0),
        _api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "0", 0),
    )
}
"""Every API by its key."""

FLEXIBLE_FROM: dict[int, int] = {int(key): api.flexible_from for key, api in APIS.items()}
"""`flexible_from` by key, for reading headers quickly."""
