"""How many connections there may be, and how many bytes of requests may wait in the broker.

`ConnectionLimits` counts connections in all and by address (max.connections, max.connections.per.ip and its overrides)
and says when the next may come (max.connection.creation.rate).
`RequestMemory` counts bytes of requests that were read and are not answered (queued.max.request.bytes); a connection
that finds it full stops reading and is called again when there is room. Both only count: who closes and who stops
reading is `listener.py` and `connection.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

CREATION_DELAY_MS_MAX = 1000.0
"""How soon the rate is looked at again where it lets nobody in: it may be changed meanwhile."""


class ConnectionLimits:
    """Open connections, in all and by the peer's address; new ones a second."""

    def __init__(
        self, *, connections_max: int, per_ip_max: int, per_ip_overrides: Mapping[str, int], creation_rate_max: int
    ) -> None:
        self.connections_max = connections_max
        self.per_ip_max = per_ip_max
        self.per_ip_overrides = per_ip_overrides
        self.creation_rate_max = creation_rate_max
        self.count = 0
        self._by_host: dict[str, int] = {}
        self._creations_left = float(creation_rate_max)
        self._counted_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether no connection more may be open; others wait to be accepted."""
        return self.count >= self.connections_max

    def creation_delay_ms(self, now: float) -> float:
        """Give how long to wait before the next connection is accepted; where that is 0, count one.

        Up to a second's worth of connections may come at once.
        """
        rate = self.creation_rate_max
        self._creations_left = min(float(rate), self._creations_left + (now - self._counted_at) * rate)
        self._counted_at = now
        if self._creations_left >= 1:
            self._creations_left -= 1
            return 0.0
        if rate == 0:
            return CREATION_DELAY_MS_MAX
        # At least a millisecond: a timer that comes a hair early would otherwise be set for no time, over and over.
        return max(1.0, (1 - self._creations_left) / rate * 1000)

    def try_open(self, host: str) -> bool:
        """Count a connection from `host`, unless that address has as many as it may."""
        open_count = self._by_host.get(host, 0)
        if open_count >= self.per_ip_overrides.get(host, self.per_ip_max):
            return False
        self._by_host[host] = open_count + 1
        self.count += 1
        return True

    def close(self, host: str) -> None:
        """Take back what `try_open` counted."""
        self.count -= 1
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]


class RequestMemory:
    """Bytes of requests that wait for their answers; `size_max` of 0 or less is no limit, as in Kafka."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.used = 0
        self.is_full = False
        """Whether nobody should read more for now; each request asks, so it is kept rather than worked out."""
        self._waiting: deque[Callable[[], object]] = deque()

    def acquire(self, size: int) -> None:
        """Count bytes; one request may go above the limit, since it was read already."""
        self.used += size
        self.is_full = 0 < self.size_max <= self.used

    def release(self, size: int) -> None:
        """Take back what `acquire` counted, and call those who waited for room."""
        self.used -= size
        self.is_full = 0 < self.size_max <= self.used
        while self._waiting and not self.is_full:
            self._waiting.popleft()()

    def wait(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, when there is room."""
        self._waiting.append(callback)
