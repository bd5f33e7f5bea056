"""ApiVersions, byte for byte where Apache Kafka 4.1 was asked what it answers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tailrace.broker.served_apis import SERVED_APIS, advertised_versions, served_versions
from tailrace.broker.server import BrokerServer
from tailrace.clock import SystemClock
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.schema import Versions
from tailrace.settings.broker_config import BrokerConfig
from tests.broker.wire import Wire, connected

LAST = 4


@pytest.fixture
async def server(tmp_path: Path):  # type: ignore[no-untyped-def]
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path), "tailrace.metrics.port": "-1"}
    server = BrokerServer(BrokerConfig(texts), SystemClock())
    await server.start()
    yield server
    await server.stop()


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def raw_request(version: int, body: bytes, *, flexible: bool = True) -> bytes:
    frame = struct.pack(">hhih", 18, version, 7, 2) + b"me" + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(frame)) + frame


KNOWN_SOFTWARE = compact("soft") + compact("1.0") + b"\0"


@pytest.mark.parametrize("version", range(LAST + 1))
async def test_what_is_served_is_told_behind_a_header_of_version_0(server: BrokerServer, version: int) -> None:
    async with connected(server.ports["PLAINTEXT"]) as wire:
        wire.ask(
            ApiVersionsRequest(client_software_name="soft", client_software_version="1.0"), version, correlation_id=7
        )
        correlation_id, answer = await wire.answer(ApiVersionsResponse, version, header_version=0)
        assert (correlation_id, answer.error_code) == (7, ErrorCode.NONE)
        told = {one.api_key: Versions(one.min_version, one.max_version) for one in answer.api_keys}
        assert told == advertised_versions()
        assert list(told) == sorted(told)
        if version >= 3:
            # Older Java clients refuse a range from 0, so Kafka leaves such features out where they ask (v3).
            supported = {(f.name, f.min_version, f.max_version) for f in answer.supported_features}
            assert supported >= {("metadata.version", 7, 27)}
            assert (("group.version", 0, 1) in supported) == (version >= 4)
            assert (("transaction.version", 0, 2) in supported) == (version >= 4)
            finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
            assert finalized == {"group.version": (1, 1), "metadata.version": (27, 27), "transaction.version": (2, 2)}
            assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
async def test_an_unknown_version_gets_error_35_and_how_to_ask(server: BrokerServer, version: int) -> None:
    async with connected(server.ports["PLAINTEXT"]) as wire:
        wire.send(raw_request(version, KNOWN_SOFTWARE, flexible=version > 0))
        # What Apache Kafka 4.1 sends: correlation id, error, and ApiVersions 0-4 alone.
        assert (await wire.frame()).hex() == "00000007" + "0023" + "00000001" + "0012" + "0000" + "0004"
        wire.send(raw_request(3, KNOWN_SOFTWARE))
        assert len(await wire.frame()) > 20


@pytest.mark.parametrize("words", [("so ft!", "1.0"), ("", ""), ("soft", "-1"), ("soft-", "1")])
async def test_client_software_that_is_no_word_is_refused(server: BrokerServer, words: tuple[str, str]) -> None:
    async with connected(server.ports["PLAINTEXT"]) as wire:
        wire.send(raw_request(3, compact(words[0]) + compact(words[1]) + b"\0"))
        assert (await wire.frame()).hex() == "00000007" + "002a" + "01" + "00000000" + "00"


async def test_bytes_behind_the_last_field_are_passed_over(server: BrokerServer) -> None:
    async with connected(server.ports["PLAINTEXT"]) as wire:
        wire.send(raw_request(0, b"xx", flexible=False))
        assert len(await wire.frame()) > 20


@pytest.mark.parametrize(
    ("key", "version"),
    [(0, 99), (0, 0), (0, 2), (999, 0), (4, 0), (52, 0), (88, 0), (-1, -1), (8, 10)],
)
async def test_what_is_not_served_closes_the_connection(server: BrokerServer, key: int, version: int) -> None:
    async with connected(server.ports["PLAINTEXT"]) as wire:
        frame = struct.pack(">hhih", key, version, 1, -1) + b"\0" * 20
        wire.send(struct.pack(">i", len(frame)) + frame)
        assert await wire.is_closed()


async def test_client_software_is_counted_while_connected(server: BrokerServer) -> None:
    metrics = server.broker.metrics

    async def introduce(wire: Wire, version: str) -> None:
        wire.ask(ApiVersionsRequest(client_software_name="soft", client_software_version=version), 3)
        await wire.answer(ApiVersionsResponse, 3, header_version=0)

    async with connected(server.ports["PLAINTEXT"]) as first, connected(server.ports["PLAINTEXT"]) as second:
        await introduce(first, "1")
        await introduce(second, "2")
        await introduce(second, "1")
        assert metrics.client_software == {("soft", "1"): 2}
    await server.stop()
    assert metrics.client_software == {}


def test_produce_is_advertised_from_0_and_unstable_versions_are_not() -> None:
    assert advertised_versions()[ApiKey.PRODUCE] == Versions(0, 13)
    assert served_versions(ApiKey.PRODUCE) == Versions(3, 13)
    assert advertised_versions()[ApiKey.INIT_PRODUCER_ID] == Versions(0, 5)
    assert len(SERVED_APIS) == len(set(SERVED_APIS))


def test_what_kafka_reads_in_our_own_row() -> None:
    row = ApiVersion(api_key=18, min_version=0, max_version=4)
    assert row == ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=LAST)
