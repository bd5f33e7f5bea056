"""The client for programs without an event loop: `from tailrace.client.blocking import Producer, Consumer, Admin`.

The same clients with the same options; what is awaited there is waited for here. One thread runs the event loop of all
of them; it starts with the first and ends with the last that is closed. Callbacks, serializers and listeners run on
that thread, and must not call a blocking client themselves: a listener's coroutines use its `asynchronous`.
"""

from __future__ import annotations

from tailrace.client.blocking.admin import Admin
from tailrace.client.blocking.consumer import Consumer
from tailrace.client.blocking.delivery import BlockingDelivery
from tailrace.client.blocking.producer import Producer

__all__ = ["Admin", "BlockingDelivery", "Consumer", "Producer"]
