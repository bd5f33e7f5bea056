"""SaslAuthenticate: v0-v2. v1: how long the session lasts (KIP-368). v2: flexible.

No listener here authenticates by SASL: whoever is connected is authenticated already, as nobody in particular.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(broker: Broker, request: Request[SaslAuthenticateRequest]) -> Answer:
    """Say that there is nothing to authenticate."""
    raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, "This listener does not authenticate by SASL.")


def error_response(request: Request[SaslAuthenticateRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return SaslAuthenticateResponse(error_code=code, error_message=message)
