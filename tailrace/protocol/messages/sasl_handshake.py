"""SaslHandshake (key 17): versions 0-1, never flexible.

v0: the tokens that follow are bare, without Kafka's framing
v1: the tokens that follow are SaslAuthenticate requests (KIP-152)
No version can follow: clients up to 2.4 would take it for one they know (KAFKA-9577).
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Message, String, empty_list, field


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    mechanism: Annotated[str, String("0+")] = ""


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    error_code: Annotated[int, Int16("0+")] = 0
    mechanisms: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
