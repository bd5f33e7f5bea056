"""Topics of a real broker that tests fill, and the options with which a source reads them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tailrace.client import Admin, Producer
from tailrace.client.admin.topics import NewTopic

T = TypeVar("T")

_numbers = itertools.count()


class Topics:
    """The topics of one broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def options(self, topic: str, **options: str) -> dict[str, str]:
        """Give a source's options for a topic."""
        return {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": topic, **options}

    def create(self, partitions: int = 2) -> str:
        """Create a topic with a name of its own."""
        name = f"flights{next(_numbers)}"
        self.admin(lambda admin: admin.create_topics([NewTopic(name, partitions)]))
        return name

    def admin(self, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        """Do something as an administrator."""

        async def connected() -> T:
            async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
                return await work(admin)

        return asyncio.run(connected())

    def send(self, topic: str, values: Sequence[str], *, partition: int | None = None, **producer: Any) -> None:
        """Write records whose keys are their values; every third has headers."""

        async def work() -> None:
            async with Producer(bootstrap_servers=self.bootstrap_servers, **producer) as opened:
                for number, value in enumerate(values):
                    headers = [("n", b"%d" % number), ("none", None)] if number % 3 == 0 else []
                    await opened.send(topic, value.encode(), key=value.encode(), headers=headers, partition=partition)

        asyncio.run(work())
