"""Administration without an event loop."""

from __future__ import annotations

from typing import Unpack

from tailrace.client.admin import Admin as AsyncAdmin
from tailrace.client.blocking.face import BlockingClient, blocking
from tailrace.client.oauth import TokenProvider
from tailrace.settings.client.admin import AdminOptions
from tailrace.settings.client_config import AdminConfig


class Admin(BlockingClient[AsyncAdmin]):
    """As `tailrace.client.Admin`, whose methods these wait for."""

    def __init__(
        self,
        config: AdminConfig | None = None,
        *,
        token_provider: TokenProvider | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        super().__init__(lambda: AsyncAdmin(config=config, token_provider=token_provider, **options))

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._thread is not None:
            try:
                self._run(self._inner.close)
            finally:
                self._let_go()

    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)

    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    delete_records = blocking(AsyncAdmin.delete_records)

    describe_configs = blocking(AsyncAdmin.describe_configs)
    alter_configs = blocking(AsyncAdmin.alter_configs)

    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    remove_members = blocking(AsyncAdmin.remove_members)
    list_group_offsets = blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)

    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    fence_producers = blocking(AsyncAdmin.fence_producers)
    find_hanging_transactions = blocking(AsyncAdmin.find_hanging_transactions)
