"""UnregisterBroker (key 64): version 0, flexible from 0.

v0: forgets a broker that will not come back (KIP-631)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Int16, Int32, Message, String


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    broker_id: Annotated[int, Int32("0+")] = 0


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
