"""Where bearer tokens come from: a function of the user's, or an identity provider that the settings name.

The settings' way is OAuth's client credentials grant (RFC 6749, section 4.4): a POST to
sasl.oauthbearer.token.endpoint.url with the client's id and secret. It is asked on a thread, and a token is used again
until four fifths of its time are over.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from tailrace.client.errors import AuthenticationFailed, ConnectionLost
from tailrace.clock import Clock

_ANSWER_BYTES_MAX: Final = 1024 * 1024
_USED_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, with Kafka's SASL extensions (KIP-342) where there are any."""

    value: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict[str, str])


TokenProvider: TypeAlias = Callable[[], Awaitable[BearerToken]]
"""Gives a token whenever a connection is authenticated, the first time or again."""


class ClientCredentials:
    """The client credentials grant: a TokenProvider."""

    def __init__(
        self, url: str, client_id: str, client_secret: str, scope: str | None, *, clock: Clock, timeout_ms: int
    ) -> None:
        self._url = url
        self._scope = scope
        self._clock = clock
        self._timeout_ms = timeout_ms
        pair = f"{urllib.parse.quote_plus(client_id)}:{urllib.parse.quote_plus(client_secret)}"
        self._authorization = "Basic " + base64.b64encode(pair.encode()).decode()
        self._token: BearerToken | None = None
        self._used_until = 0.0
        self._asking = asyncio.Lock()

    async def __call__(self) -> BearerToken:
        """Give the token that is there, or ask for a new one; AuthenticationFailed where it is refused."""
        async with self._asking:
            if self._token is None or self._clock.monotonic() >= self._used_until:
                asked_at = self._clock.monotonic()
                answer = await asyncio.to_thread(self._ask)
                self._token = BearerToken(_text(answer, "access_token", self._url))
                self._used_until = asked_at + _lifetime_s(answer) * _USED_SHARE
            return self._token

    def _ask(self) -> dict[str, Any]:
        """Post the form; on a thread."""
        form = {"grant_type": "client_credentials", **({"scope": self._scope} if self._scope else {})}
        headers = {
            "Authorization": self._authorization,
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = urllib.request.Request(self._url, urllib.parse.urlencode(form).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_ms / 1000) as response:
                return _object(response.read(_ANSWER_BYTES_MAX), self._url)
        except urllib.error.HTTPError as error:
            text = error.read(_ANSWER_BYTES_MAX).decode(errors="replace")[:500]
            if error.code >= 500 or error.code == 429:
                raise ConnectionLost(f"{self._url} gives no token: {error.code} {error.reason}") from error
            raise AuthenticationFailed(f"{self._url} gives no token: {error.code} {error.reason} {text}") from error
        except OSError as error:
            raise ConnectionLost(f"{self._url} gives no token: {error}") from error


def _object(body: bytes, url: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise AuthenticationFailed(f"{url} answers with what is no JSON object")
    return cast("dict[str, Any]", answer)


def _text(answer: Mapping[str, Any], key: str, url: str) -> str:
    value = answer.get(key)
    if not isinstance(value, str):
        raise AuthenticationFailed(f"{url} answers without {key}")
    return value


def _lifetime_s(answer: Mapping[str, Any]) -> float:
    """Give how long the token holds; one that does not say is used once."""
    lifetime = answer.get("expires_in")
    return float(lifetime) if isinstance(lifetime, int | float) and lifetime > 0 else 0.0
