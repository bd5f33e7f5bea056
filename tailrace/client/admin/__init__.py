"""Administration of a cluster, by subject: topics, settings, groups and their offsets, transactions, what is on disk.

`Admin` is all of it; what its methods take and give is named here, too.
"""

from __future__ import annotations

from tailrace.client.admin.admin import Admin
from tailrace.client.admin.cluster import ClusterDescription
from tailrace.client.admin.configs import AlterOperation, ConfigChange, ConfigEntry, ConfigSource, ResourceType
from tailrace.client.admin.group_offsets import GroupOffset
from tailrace.client.admin.groups import (
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
)
from tailrace.client.admin.log_dirs import LogDirectory, ReplicaOnDisk
from tailrace.client.admin.session import Results
from tailrace.client.admin.topics import NewTopic
from tailrace.client.admin.transactions import (
    HangingTransaction,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)

__all__ = [
    "Admin",
    "AlterOperation",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigSource",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupOffset",
    "GroupState",
    "GroupType",
    "HangingTransaction",
    "LogDirectory",
    "NewTopic",
    "PartitionProducer",
    "ReplicaOnDisk",
    "ResourceType",
    "Results",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
]
