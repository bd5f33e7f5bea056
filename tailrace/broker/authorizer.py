"""Who may do what: the question every handler asks before it acts.

`Authorizer` is the seam; `AllowAllAuthorizer` its simplest implementation, and Kafka's behaviour when
`authorizer.class.name` is empty. Operations and resource types carry the numbers Kafka uses in ACL messages and in the
authorized-operations bit fields of Metadata, DescribeCluster and DescribeGroups.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from tailrace.broker.request import ConnectionInfo

CLUSTER_NAME = "kafka-cluster"
"""The one resource name of type CLUSTER."""

AUTHORIZED_OPERATIONS_OMITTED = -(2**31)
"""What an authorized-operations field says when the client did not ask for it."""


class ResourceType(IntEnum):
    """Kinds of things that can be protected."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """Kinds of things that can be done."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


SUPPORTED_OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that make sense on each kind of resource, as Kafka 4.1 lists them."""


class Authorizer(Protocol):
    """Decides about one operation on one resource; must answer at once, from memory."""

    def authorize(
        self,
        connection: ConnectionInfo,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        """Say whether the connection's principal may do this."""
        ...


class AllowAllAuthorizer:
    """Allows everything."""

    def authorize(
        self,
        connection: ConnectionInfo,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        """Allow it."""
        return True


def authorized_operations(
    authorizer: Authorizer, connection: ConnectionInfo, resource_type: ResourceType, resource_name: str
) -> int:
    """Give the bit field of what the connection's principal may do: bit n stands for operation n."""
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource_type]:
        if authorizer.authorize(connection, operation, resource_type, resource_name):
            bits |= 1 << operation
    return bits
