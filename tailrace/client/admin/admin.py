"""Administration: all of it in one class.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topics([NewTopic("flights", partitions=3)])

Each call is one request with its retries, OperationTimedOut after default.api.timeout.ms. Where a call is for several
names, what went wrong with one of them is in the result, beside the others: `dict[name, ApiError | None]`.
"""

from __future__ import annotations

import itertools
from typing import Unpack

from tailrace.client.admin.cluster import ClusterAdmin
from tailrace.client.admin.configs import ConfigAdmin
from tailrace.client.admin.group_offsets import GroupOffsetAdmin
from tailrace.client.admin.groups import GroupAdmin
from tailrace.client.admin.log_dirs import LogDirAdmin
from tailrace.client.admin.topics import TopicAdmin
from tailrace.client.admin.transactions import TransactionAdmin
from tailrace.client.cluster import Cluster
from tailrace.client.oauth import TokenProvider
from tailrace.settings.client.admin import AdminOptions
from tailrace.settings.client_config import AdminConfig

_numbers = itertools.count(1)


class Admin(TopicAdmin, ConfigAdmin, GroupAdmin, GroupOffsetAdmin, TransactionAdmin, LogDirAdmin, ClusterAdmin):
    """Administration of a cluster: of the one at `bootstrap_servers`, or of one that is connected to already.

    Options have Kafka's names with `_` for `.`, and Kafka's defaults; times are milliseconds.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        config: AdminConfig | None = None,
        token_provider: TokenProvider | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._owned: Cluster | None = None
        if cluster is None:
            merged = AdminConfig({**(config.given if config is not None else {}), **options})
            name = f"tailrace-admin-{next(_numbers)}"
            cluster = self._owned = Cluster(merged, name=name, token_provider=token_provider)
        elif config is not None or options or token_provider is not None:
            raise TypeError("a cluster that is connected to already has its settings: give no others")
        super().__init__(cluster)

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless the cluster was given."""
        if self._owned is not None:
            await self._owned.close()
