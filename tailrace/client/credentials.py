"""Who the client says it is, read from the settings: sasl.username and sasl.password, or Java's JAAS line.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Final

from tailrace.client.oauth import BearerToken, ClientCredentials, TokenProvider
from tailrace.clock import Clock
from tailrace.settings.client_config import ClientConfig
from tailrace.settings.config_error import ConfigError

_JAAS = re.compile(r"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.DOTALL)
_OPTION = re.compile(
    r"""\s*(?P<key>[\w.\-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"';]+))"""
)
_UNSECURED_CLAIM: Final = "unsecuredLoginStringClaim_"
_UNSECURED_LIFETIME_S: Final = 3600


@dataclass(frozen=True, slots=True)
class UserAndPassword:
    """A user; `extensions` are SCRAM's, which delegation tokens use."""

    user: str
    password: str = field(repr=False)
    is_delegation_token: bool = False


def read_user(config: ClientConfig) -> UserAndPassword:
    """Give user and password; ConfigError where they are not there."""
    options = read_jaas(config.sasl_jaas_config)
    user = config.sasl_username if config.sasl_username is not None else options.get("username")
    password = config.sasl_password if config.sasl_password is not None else options.get("password")
    if user is None:
        raise ConfigError("sasl.username", None, f"the user, which {config.sasl_mechanism} needs")
    if password is None:
        raise ConfigError("sasl.password", None, f"the password, which {config.sasl_mechanism} needs")
    return UserAndPassword(user, password, options.get("tokenauth", "").lower() == "true")


def make_token_provider(config: ClientConfig, clock: Clock) -> TokenProvider:
    """Make what fetches bearer tokens; ConfigError where nothing says where from."""
    options = read_jaas(config.sasl_jaas_config)
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None:
        claims = {key.removeprefix(_UNSECURED_CLAIM): text for key, text in options.items() if _UNSECURED_CLAIM in key}
        if claims:
            return _UnsecuredTokens(claims, clock)
        expected = "where to get tokens, which OAUTHBEARER needs where no token_provider is given"
        raise ConfigError("sasl.oauthbearer.token.endpoint.url", None, expected)
    if not url.lower().startswith(("https://", "http://")):
        raise ConfigError("sasl.oauthbearer.token.endpoint.url", url, "an address that begins with https://")
    client_id = config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = config.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret")
    if client_id is None or secret is None:
        expected = "the client's id and secret, both"
        raise ConfigError("sasl.oauthbearer.client.credentials.client.id", client_id, expected)
    scope = config.sasl_oauthbearer_scope or options.get("scope")
    return ClientCredentials(url, client_id, secret, scope, clock=clock, timeout_ms=config.request_timeout_ms)


def read_jaas(text: str | None) -> dict[str, str]:
    """Read the options of a JAAS line."""
    if text is None:
        return {}
    match = _JAAS.fullmatch(text)
    expected = 'a login module, `required`, options as key="value", and a semicolon'
    if match is None:
        raise ConfigError("sasl.jaas.config", "[hidden]", expected)
    options: dict[str, str] = {}
    rest, position = match["options"].rstrip(), 0
    while position < len(rest):
        option = _OPTION.match(rest, position)
        if option is None:
            raise ConfigError("sasl.jaas.config", "[hidden]", expected)
        quoted = option["quoted"]
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else option["single"] or option["bare"] or ""
        options[option["key"]] = value
        position = option.end()
    return options


class _UnsecuredTokens:
    """Tokens that nobody has signed, as Kafka's OAuthBearerLoginModule makes them: for trying things out only."""

    def __init__(self, claims: dict[str, str], clock: Clock) -> None:
        self._claims = claims
        self._clock = clock

    async def __call__(self) -> BearerToken:
        now = self._clock.time_ms() / 1000
        claims = {**self._claims, "iat": now, "exp": now + _UNSECURED_LIFETIME_S}
        header, payload = (_base64url(json.dumps(part).encode()) for part in ({"alg": "none"}, claims))
        return BearerToken(f"{header}.{payload}.")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
