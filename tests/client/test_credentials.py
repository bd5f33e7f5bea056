"""Users, passwords and tokens as settings say them."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from tailrace.client.credentials import UserAndPassword, make_token_provider, read_jaas, read_user
from tailrace.client.errors import AuthenticationFailed, ConnectionLost
from tailrace.settings.client_config import AdminConfig
from tailrace.settings.config_error import ConfigError
from tailrace.testing.ports import free_port
from tailrace.testing.virtual_clock import VirtualClock

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def config(**settings: Any) -> AdminConfig:
    return AdminConfig({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **settings})


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} username="alice" password="a;\\"b\\\\c d";', {"username": "alice", "password": 'a;"b\\c d'}),
        (f"{PLAIN} username='alice'\n  password=bare;\n", {"username": "alice", "password": "bare"}),
        (f"{PLAIN};", {}),
    ],
)
def test_a_jaas_line_is_read(text: str, options: dict[str, str]) -> None:
    assert read_jaas(text) == options


@pytest.mark.parametrize("text", ["", PLAIN, f'{PLAIN} username="a"', f'{PLAIN} username="a;', f"{PLAIN} a;", "x y;"])
def test_what_is_no_jaas_line_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl.jaas.config=\[hidden\]"):
        read_jaas(text)


def test_users_come_from_either_form() -> None:
    jaas = f'{SCRAM} username="alice" password="secret" tokenauth="true";'
    assert read_user(config(sasl_jaas_config=jaas)) == UserAndPassword("alice", "secret", True)
    assert read_user(config(sasl_username="bob", sasl_password="")) == UserAndPassword("bob", "", False)
    assert "secret" not in repr(read_user(config(sasl_jaas_config=jaas)))


async def test_unsecured_tokens_have_the_claims_and_an_end() -> None:
    clock = VirtualClock()
    settings = config(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=f'{OAUTH} unsecuredLoginStringClaim_sub="admin";')
    token = await make_token_provider(settings, clock)()
    header, payload, signature = token.value.split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, payload)]
    assert decoded[0] == {"alg": "none"}
    assert (decoded[1]["sub"], decoded[1]["exp"] - decoded[1]["iat"], signature) == ("admin", 3600, "")


class IdentityProvider(HTTPServer):
    """Answers with what `answers` says, and keeps what it was asked."""

    answers: list[tuple[int, bytes]]
    asked: list[tuple[str, dict[str, list[str]]]]


class Handler(BaseHTTPRequestHandler):
    server: IdentityProvider

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], parse_qs(form)))
        status, body = self.server.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    server = IdentityProvider(("127.0.0.1", 0), Handler)
    server.answers, server.asked = [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def credentials(url: str) -> AdminConfig:
    return config(
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=url,
        sasl_oauthbearer_client_credentials_client_id="me:too",
        sasl_oauthbearer_client_credentials_client_secret="s&t",
        sasl_oauthbearer_scope="kafka",
    )


async def test_a_token_is_fetched_once_and_again_when_most_of_its_time_is_over(provider: IdentityProvider) -> None:
    clock = VirtualClock()
    provider.answers = [(200, b'{"access_token":"one","expires_in":100}'), (200, b'{"access_token":"two"}')]
    tokens = make_token_provider(credentials(f"http://127.0.0.1:{provider.server_port}/token"), clock)
    first = await asyncio.gather(tokens(), tokens())
    assert [token.value for token in first] == ["one", "one"]
    await clock.advance_async(79_000)
    assert (await tokens()).value == "one"
    await clock.advance_async(2_000)
    assert (await tokens()).value == "two"
    authorization, form = provider.asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me%3Atoo:s%26t"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert "one" not in repr(first)


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (401, b'{"error":"invalid_client"}', AuthenticationFailed, "401 Unauthorized .*invalid_client"),
        (503, b"", ConnectionLost, "503"),
        (200, b"hello", AuthenticationFailed, "no JSON object"),
        (200, b"[]", AuthenticationFailed, "no JSON object"),
        (200, b'{"access_token":5}', AuthenticationFailed, "without access_token"),
    ],
)
async def test_a_provider_that_gives_no_token_is_quoted(
    provider: IdentityProvider, status: int, body: bytes, error: type[Exception], said: str
) -> None:
    provider.answers = [(status, body)]
    tokens = make_token_provider(credentials(f"http://127.0.0.1:{provider.server_port}/token"), VirtualClock())
    with pytest.raises(error, match=said):
        await tokens()


async def test_a_provider_that_is_not_there_may_be_there_later() -> None:
    tokens = make_token_provider(credentials(f"http://127.0.0.1:{free_port()}/"), VirtualClock())
    with pytest.raises(ConnectionLost, match="gives no token"):
        await tokens()


def test_an_address_that_is_no_web_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"token.endpoint.url=file:///x"):
        make_token_provider(credentials("file:///x"), VirtualClock())
