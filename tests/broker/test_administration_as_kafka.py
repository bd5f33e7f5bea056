"""What Apache Kafka 4.1 answered to three hundred administrative requests, asked of Tailrace in the same order.

`golden/administration.jsonl.gz` has a request a line, in the JSON form of Kafka's own converters, and what a broker in
KRaft's combined mode answered (node 0, rack-0, eligible leader replicas off). Of answers only facts are kept: ids,
ports, sizes and error messages are reduced to whether there are any, and lists that Kafka orders by hash are sorted.
`$name` in a request stands for the id of that topic. `DEVIATIONS` has what differs, and why.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.dispatch import Call, Dispatcher
from tailrace.broker.dynamic_config import effective_config, follow_dynamic_config
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import decode_message, encode_message
from tailrace.protocol.json_form import message_from_json, message_to_json
from tailrace.protocol.uuid import ZERO_UUID, uuid_text
from tests.broker.parts import CONNECTION, NODE_ID, Parts, make_parts, stop_parts

GOLDEN = Path(__file__).parent.parent / "golden" / "administration.jsonl.gz"
NO_ID = uuid_text(ZERO_UUID)

MADE_BEFORE = "the recorded broker had topics from a first run of the same requests"
BAD_REQUEST = "Kafka answers UNKNOWN_SERVER_ERROR to what is the client's mistake"
NO_COORDINATOR = "nobody coordinates transactions and share groups here yet"
GROUPS_AT_ONCE = "Kafka makes __consumer_offsets first, and says meanwhile that the coordinator is not available"

DEVIATIONS = {
    "002 null v1": MADE_BEFORE,
    "009 all v13": MADE_BEFORE,
    "010 all v10": MADE_BEFORE,
    "013 null name zero id": BAD_REQUEST,
    "076 space": "Kafka keeps the blanks around a value, and takes them away where it reads it",
    "109 many": BAD_REQUEST,
    "118 broker key": "advertised.listeners is not set for the broker of this test",
    "128 logger": "the level of the root logger is that of the test run",
    "148 bad op": BAD_REQUEST,
    "202 after undo": "Kafka answered from before the change: its metadata follows a little later",
    "261 fc": GROUPS_AT_ONCE,
    "262 fc": GROUPS_AT_ONCE,
    "263 fc": GROUPS_AT_ONCE,
    "274 fc": NO_COORDINATOR,
    "277 fc": NO_COORDINATOR,
    "281 fc": NO_COORDINATOR,
}


def normal(value: Any, key: str | None = None) -> Any:
    """Reduce an answer to what two brokers have in common."""
    if isinstance(value, dict):
        return {name: normal_field(name, item) for name, item in value.items()}
    if isinstance(value, list):
        items = [normal(item) for item in value]
        unordered = key in ("topics", "partitions", "configs", "configResources", "responses")
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if unordered else items
    return value


def normal_field(name: str, value: Any) -> Any:
    match name:
        case "topicId":
            return "none" if value == NO_ID else "some"
        case "port" | "totalBytes" | "usableBytes":
            return "some" if value > 0 else value
        case "host" | "errorMessage" | "documentation":
            return value and "some"
        case "logDir":
            return "some"
        case _:
            return normal(value, name)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    parts.broker.config = effective_config(parts.broker.config, parts.metadata, NODE_ID)
    follow_dynamic_config(parts.broker)
    yield parts
    await stop_parts(parts)


def with_ids(form: Any, known: dict[str, str]) -> Any:
    if isinstance(form, dict):
        return {name: with_ids(item, known) for name, item in form.items()}
    if isinstance(form, list):
        return [with_ids(item, known) for item in form]
    return known.get(form[1:], form) if isinstance(form, str) and form.startswith("$") else form


async def ask(dispatcher: Dispatcher, key: ApiKey, version: int, form: Any) -> dict[str, Any]:
    """Send one request through the dispatcher, as bytes, and give the answer as JSON."""
    api = key.api
    body = encode_message(message_from_json(api.request_class, version, form), version)
    header_version = api.request_header_version(version)
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\x00\x01t"
    frame = header + (b"\x00" if header_version >= 2 else b"") + body
    outcome = dispatcher.dispatch(memoryview(frame), CONNECTION, 0.0)
    if isinstance(outcome, Call):
        answer: Any = None
        error: Exception | None = None
        try:
            answer = await outcome.result  # type: ignore[misc]
        except Exception as failure:  # noqa: BLE001 - the dispatcher turns it into an answer
            error = failure
        outcome = outcome.finish(answer, error)
    assert outcome is not None
    response = b"".join(outcome)[8:]
    if api.response_header_version(version) >= 1:
        response = response[1:]
    return message_to_json(decode_message(api.response_class, version, response), version)


async def test_kafkas_answers(parts: Parts) -> None:
    dispatcher = Dispatcher(parts.broker)
    known: dict[str, str] = {}
    differences: list[str] = []
    used: set[str] = set()
    for line in gzip.decompress(GOLDEN.read_bytes()).splitlines():
        case = json.loads(line)
        form = with_ids(case["request"], known)
        answer = await ask(dispatcher, ApiKey(case["api"]), case["version"], form)
        known.update((topic.name, uuid_text(topic.topic_id)) for topic in parts.metadata.topics.values())
        title = case["title"]
        if normal(answer) == case["response"]:
            continue
        used.add(title)
        if title not in DEVIATIONS:
            differences.append(
                f"{title}: API {case['api']} v{case['version']} {json.dumps(case['request'])[:300]}\n"
                f"  Kafka {json.dumps(case['response'], sort_keys=True)[:600]}\n"
                f"  here  {json.dumps(normal(answer), sort_keys=True)[:600]}"
            )
    assert not differences, "\n".join(differences)
    assert used == DEVIATIONS.keys(), "a deviation that is no more has to leave the list"
