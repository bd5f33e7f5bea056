"""SaslHandshake: v0-v1. v1: what follows goes in SaslAuthenticate requests, not in bare tokens (KIP-152).

No listener here authenticates by SASL. A client that is set up for it is told so, as by a Kafka listener without SASL,
and can name its mistake where it would otherwise see only that the connection closes.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(broker: Broker, request: Request[SaslHandshakeRequest]) -> Answer:
    """Offer no mechanism."""
    raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)


def error_response(request: Request[SaslHandshakeRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error and no mechanism."""
    return SaslHandshakeResponse(error_code=code)
