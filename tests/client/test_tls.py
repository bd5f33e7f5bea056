"""Encrypted connections over real sockets: who is trusted, and who is who they say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tailrace.client.address import Address
from tailrace.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from tailrace.client.stream import SocketOpener
from tailrace.client.tls import make_tls_context
from tailrace.settings.client_config import AdminConfig
from tailrace.settings.config_error import ConfigError
from tests.client.certificates import Authority
from tests.waiting import until

COUNT = 3_000_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Received:
    """Keeps what a stream receives."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._memory = bytearray(65_536)
        self.is_over = False

    def receive_buffer(self) -> memoryview:
        return memoryview(self._memory)

    def received(self, count: int) -> None:
        self.data += self._memory[:count]

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True


@asynccontextmanager
async def echo(
    authority: Authority, name: str = "localhost", change: Callable[[ssl.SSLContext], object] = lambda context: None
) -> AsyncIterator[Address]:
    """A server that gives back what it gets, encrypted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.keystore(name))
    change(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except OSError:
            writer.transport.abort()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield Address("localhost", server.sockets[0].getsockname()[1])


def context_of(authority: Authority, **settings: Any) -> ssl.SSLContext:
    options = {"security_protocol": "SSL", "ssl_truststore_location": str(authority.trusted), **settings}
    return make_tls_context(AdminConfig(options))


async def echoed(address: Address, context: ssl.SSLContext, data: bytes = b"hello") -> bytes:
    received = Received()
    stream = await SocketOpener(tls=context)(address, received)
    half = len(data) // 2
    stream.write([memoryview(data)[:half], data[half:]])
    await until(lambda: len(received.data) >= len(data) or received.is_over, "the echo")
    stream.close()
    await until(lambda: received.is_over, "the end of the connection")
    return bytes(received.data)


async def test_bytes_go_round_encrypted(authority: Authority) -> None:
    data = bytes(range(250)) * (COUNT // 250)
    async with echo(authority) as address:
        assert await echoed(address, context_of(authority), data) == data


async def test_certificates_may_be_texts(authority: Authority) -> None:
    trusted = authority.trusted.read_text()
    async with echo(authority) as address:
        context = make_tls_context(AdminConfig({"security_protocol": "SSL", "ssl_truststore_certificates": trusted}))
        assert await echoed(address, context) == b"hello"


async def test_a_broker_that_nobody_trusts_is_not_talked_to(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    async with echo(authority) as address:
        with pytest.raises(AuthenticationFailed, match=r"localhost:\d+ could not prove who it is: .*certificate"):
            await echoed(address, context_of(stranger))
        with pytest.raises(AuthenticationFailed, match="could not prove who it is"):
            await echoed(address, make_tls_context(AdminConfig({"security_protocol": "SSL"})))


async def test_a_broker_with_another_name_is_talked_to_only_where_names_do_not_matter(authority: Authority) -> None:
    async with echo(authority, "elsewhere.example") as address:
        with pytest.raises(AuthenticationFailed, match="Hostname mismatch"):
            await echoed(address, context_of(authority))
        context = context_of(authority, ssl_endpoint_identification_algorithm="")
        assert await echoed(address, context) == b"hello"


def ask_for_a_certificate(authority: Authority) -> Callable[[ssl.SSLContext], None]:
    def change(context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.trusted)

    return change


@pytest.mark.parametrize("form", ["file", "locked file", "texts"])
async def test_a_client_shows_its_certificate(authority: Authority, form: str) -> None:
    settings: dict[str, str] = {}
    if form == "texts":
        key, end, chain = authority.keystore("alice").read_text().partition("-----END PRIVATE KEY-----")
        settings = {"ssl_keystore_key": key + end, "ssl_keystore_certificate_chain": chain}
    else:
        password = "secret" if form == "locked file" else None
        settings["ssl_keystore_location"] = str(authority.keystore("alice", password=password))
        if password:
            settings["ssl_key_password"] = password
    async with echo(authority, change=ask_for_a_certificate(authority)) as address:
        assert await echoed(address, context_of(authority, **settings)) == b"hello"


async def test_a_client_without_a_certificate_is_refused(authority: Authority) -> None:
    def change(context: ssl.SSLContext) -> None:
        ask_for_a_certificate(authority)(context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # later, the client hears of it with the first answer

    async with echo(authority, change=change) as address:
        with pytest.raises(ClientError, match="TLS"):
            await echoed(address, context_of(authority))


async def test_versions_that_are_not_enabled_are_not_spoken(authority: Authority) -> None:
    def change(context: ssl.SSLContext) -> None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2

    async with echo(authority, change=change) as address:
        assert await echoed(address, context_of(authority, ssl_enabled_protocols="TLSv1.2")) == b"hello"
        with pytest.raises(ClientError, match="TLS"):
            await echoed(address, context_of(authority, ssl_enabled_protocols="TLSv1.3"))


async def test_a_port_that_speaks_no_tls_is_said(authority: Authority) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0\0\0\4what")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises((AuthenticationFailed, ConnectionLost), match=r"does the port speak TLS\?|with TLS"):
            await echoed(address, context_of(authority))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_truststore_location": "nowhere.pem"}, "ssl.truststore.location=nowhere.pem: expected a file"),
        ({"ssl_truststore_certificates": "x"}, r"ssl.truststore.certificates=\[hidden\]"),
        ({"ssl_keystore_location": "nowhere.pem"}, "ssl.keystore.location=nowhere.pem"),
        ({"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y"}, r"ssl.keystore.key=\[hidden\]"),
        ({"ssl_cipher_suites": "ROT13"}, "ssl.cipher.suites=ROT13"),
    ],
)
def test_stores_that_cannot_be_read_are_settings_that_are_wrong(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_tls_context(AdminConfig({"security_protocol": "SSL", **settings}))


def test_a_locked_key_does_not_ask_on_the_terminal(authority: Authority) -> None:
    location = str(authority.keystore("bob", password="secret"))
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        context_of(authority, ssl_keystore_location=location)
