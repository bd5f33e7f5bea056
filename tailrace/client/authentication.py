"""How a connection proves who the client is.

SaslHandshake names a mechanism, SaslAuthenticate carries its messages until it is done (KIP-152). A broker may say for
how long it believes that (KIP-368); the connection then goes through the same again, with new credentials where they
are tokens, before that time is over.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tailrace.client.connection import Authenticate, Connection
from tailrace.client.credentials import make_token_provider, read_user
from tailrace.client.deadline import within
from tailrace.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from tailrace.client.oauth import TokenProvider
from tailrace.clock import Clock
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.protocol.sasl.mechanism import ClientMechanism, SaslFailure
from tailrace.protocol.sasl.oauthbearer import OauthBearerClient
from tailrace.protocol.sasl.plain import PlainClient
from tailrace.protocol.sasl.scram import MECHANISM_HASHES, ScramClient
from tailrace.settings.client_config import ClientConfig

_NONCE_BYTES: Final = 24
_RENEWED_SHARE: Final = (0.85, 0.95)
"""When a session is renewed, as a share of its time; spread, so that clients do not come all at once."""

Begin = Callable[[], Awaitable[ClientMechanism]]
"""Begins an exchange: a mechanism is for one only."""


def make_authenticator(
    config: ClientConfig, clock: Clock, random: Random, token_provider: TokenProvider | None
) -> Authenticate | None:
    """Make what authenticates connections; None where the settings ask for none, ConfigError where they cannot be."""
    if not config.is_authenticated:
        return None
    begin = _make_begin(config, clock, token_provider)

    async def authenticate(connection: Connection) -> float:
        lifetime_ms = await _authenticate(connection, config.sasl_mechanism, begin)
        return lifetime_ms * random.uniform(*_RENEWED_SHARE)

    return authenticate


def _make_begin(config: ClientConfig, clock: Clock, token_provider: TokenProvider | None) -> Begin:
    mechanism = config.sasl_mechanism
    if mechanism == OauthBearerClient.name:
        provider = token_provider or make_token_provider(config, clock)
        timeout_ms = config.request_timeout_ms

        async def begin_oauth() -> ClientMechanism:
            timed_out = ConnectionLost(f"there was no bearer token in {timeout_ms} ms")
            token = await within(clock, timeout_ms, provider(), timed_out)
            return OauthBearerClient(token.value, extensions=token.extensions)

        return begin_oauth
    user = read_user(config)

    async def begin() -> ClientMechanism:
        if mechanism in MECHANISM_HASHES:
            nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
            extensions = "tokenauth=true" if user.is_delegation_token else ""
            return ScramClient(mechanism, user.user, user.password, nonce=nonce, extensions=extensions)
        return PlainClient(user.user, user.password)

    return begin


async def _authenticate(connection: Connection, name: str, begin: Begin) -> int:
    """Go through one exchange, and give for how many milliseconds it is believed; 0 is for ever."""
    where = f"authentication at {connection.address} by {name} failed"
    try:
        mechanism = await begin()
    except (ValueError, TypeError) as error:
        raise AuthenticationFailed(f"{where}: {error}") from error
    except ClientError:
        raise
    except Exception as error:  # a token provider is the user's own, and may raise anything
        raise AuthenticationFailed(f"{where}: the token provider raised {error!r}") from error
    handshake = await connection.authenticate_request(SaslHandshakeRequest(mechanism=name), SaslHandshakeResponse)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationFailed(f"{where}: the broker's mechanisms are {offered}")
    lifetime_ms = 0
    said: bytes | None = mechanism.first()
    while said is not None:
        request = SaslAuthenticateRequest(auth_bytes=said)
        answer = await connection.authenticate_request(request, SaslAuthenticateResponse)
        if answer.error_code:
            raise AuthenticationFailed(f"{where}: {_refusal(mechanism, answer)}")
        try:
            said = mechanism.answer(bytes(answer.auth_bytes))
        except SaslFailure as error:
            raise AuthenticationFailed(f"{where}: {error}") from error
        lifetime_ms = answer.session_lifetime_ms
    return lifetime_ms


def _refusal(mechanism: ClientMechanism, answer: SaslAuthenticateResponse) -> str:
    told = answer.error_message or ErrorCode(answer.error_code).name
    if isinstance(mechanism, OauthBearerClient) and mechanism.refusal:
        return f"{told} ({mechanism.refusal})"
    return told
