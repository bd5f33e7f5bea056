"""The table of APIs says what the declarations say, and what Kafka 4.1 serves and advertises."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tailrace.protocol.api_keys import APIS, FLEXIBLE_FROM, ApiKey, find_message_class
from tailrace.protocol.schema import VERSION_LIMIT, Versions

CLIENT_FACING = {*range(4), *range(8, 52), 55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72, *range(74, 82), *range(88, 93)}


@pytest.mark.parametrize("key", ApiKey)
def test_the_table_repeats_the_declarations(key: ApiKey) -> None:
    api = key.api
    for cls in (api.request_class, api.response_class):
        assert (cls.api_key, cls.versions) == (key, api.versions)
        first = cls.flexible.first if cls.flexible.first <= cls.flexible.last else VERSION_LIMIT + 1
        assert first == api.flexible_from == FLEXIBLE_FROM[key]
        last = api.versions.last - 1 if api.request_class.unstable else api.versions.last
        assert api.advertised.last == last or last < api.versions.first
    assert api.request_class is find_message_class(api.name + "Request")
    assert api.response_class is find_message_class(api.name + "Response")


def test_every_client_facing_api_of_kafka_is_there() -> None:
    assert {key for key, api in APIS.items() if api.is_client_facing} == CLIENT_FACING


def test_what_is_advertised_differs_where_kafka_says_so() -> None:
    differing = {api.name: str(api.advertised) for api in APIS.values() if api.advertised != api.versions}
    assert differing == {
        "Produce": "0-13",
        "OffsetCommit": "2-9",
        "OffsetFetch": "1-9",
        "InitProducerId": "0-5",
        "StreamsGroupHeartbeat": "none",
        "StreamsGroupDescribe": "none",
    }


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0, 2, 1),
    ],
)
def test_header_versions(key: ApiKey, version: int, request_header: int, response_header: int) -> None:
    assert key.api.request_header_version(version) == request_header
    assert key.api.response_header_version(version) == response_header


@pytest.mark.parametrize("name", ["", "Fetch", "fetchrequest", "Request", "HeaderRequest", "FetchRequestResponse"])
def test_a_name_that_is_no_message_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no message is named"):
        find_message_class(name)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("3+", Versions(3, VERSION_LIMIT)),
        ("2-9", Versions(2, 9)),
        ("5", Versions(5, 5)),
        ("none", Versions(0, -1)),
    ],
)
def test_versions_are_read_and_written(text: str, versions: Versions) -> None:
    assert Versions.parse(text) == versions
    assert str(versions) == text
    assert versions.last not in Versions.parse("none")


@pytest.mark.slow
def test_twenty_five_messages_are_imported_in_no_time() -> None:
    """A start must not wait for schemas: they are declared without evaluating anything, and compiled when needed."""
    names = [api.module_name for api in list(APIS.values())[:25]]
    script = f"""
import time, typing, struct, importlib, dataclasses
begin = time.process_time()
for name in {names!r}:
    importlib.import_module("tailrace.protocol.messages." + name)
print(time.process_time() - begin)
"""
    run = [sys.executable, "-c", script]
    seconds = min(float(subprocess.run(run, capture_output=True, check=True).stdout) for _ in range(3))
    assert seconds < 0.04
