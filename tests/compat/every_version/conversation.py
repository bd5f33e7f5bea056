"""A client that is only a socket and asks in any version: what it was answered, reduced to what two brokers share.

Requests are written in Kafka's JSON form, with only the fields that matter: the others get their defaults, and what a
version lacks is left out, so that one question serves all versions of an API.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any

from tailrace.protocol.api_keys import APIS, Api
from tailrace.protocol.codec import decode_message, encode_message
from tailrace.protocol.field_plan import FieldPlan, StructPlan, plan_message
from tailrace.protocol.json_form import message_from_json, message_to_json
from tailrace.protocol.uuid import ZERO_UUID, uuid_text
from tests.waiting import wait_for

Form = dict[str, Any]

CLOSED = "closed"
ANSWER_DEADLINE_S = 15.0
NO_ID = uuid_text(ZERO_UUID)
COORDINATOR_IS_BUSY = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: ask again."""

API_BY_NAME = {api.name: api for api in APIS.values()}
TOLD_APART = {
    "topicId",
    "clusterId",
    "memberId",
    "leader",
    "host",
    "errorMessage",
    "logDir",
    "documentation",
    "clientHost",
}
"""Fields of which only this counts: whether there is anything in them."""
CHANCE = {"port", "totalBytes", "usableBytes", "partitionSize", "lastTimestamp", "transactionStartTimeMs"}
CHANCE |= {"logEndOffset", "lastFetchTimestamp", "lastCaughtUpTimestamp"}
UNORDERED = {"topics", "partitions", "configs", "responses", "results", "groups", "coordinators", "members", "synonyms"}
UNORDERED |= {"activeProducers", "replicaElectionResults"}
"""Lists that Kafka fills from a hash map."""


class Conversation:
    """One connection at a time, and what was answered on it, under the titles of the questions."""

    def __init__(self, port: int) -> None:
        self.answers: dict[str, Any] = {}
        self._port = port
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def ask(self, name: str, version: int, title: str = "", **fields: Any) -> Any:
        """Ask, write the answer down, and give it as it was; `closed` where the broker hung up."""
        answer = self.quietly(name, version, **fields)
        full_title = f"{name} v{version} {title}".strip()
        assert full_title not in self.answers, full_title
        self.answers[full_title] = normal(answer)
        return answer

    def quietly(self, name: str, version: int, **fields: Any) -> Any:
        """Ask without writing the answer down."""
        api = API_BY_NAME[name]
        body = encode_message(
            message_from_json(api.request_class, version, request_form(api, version, fields)), version
        )
        frame = self.send(api.key, version, body, is_flexible=version >= api.flexible_from)
        return frame if isinstance(frame, str) else answer_form(api, version, frame)

    def until(self, holds: Callable[[Any], bool], name: str, version: int, **fields: Any) -> Any:
        """Ask again until the answer is as it should be."""
        found: list[Any] = []
        wait_for(lambda: found.append(self.quietly(name, version, **fields)) or holds(found[-1]))
        return found[-1]

    def send(self, key: int, version: int, body: bytes, *, is_flexible: bool = False, ends: bool = True) -> bytes | str:
        """Send a request with any key and body; give the answer's frame behind its correlation id."""
        self._correlation_id += 1
        header = (
            struct.pack(">hhih", key, version, self._correlation_id, 6) + b"compat" + (b"\x00" if is_flexible else b"")
        )
        return self.send_frame(header + body)

    def send_frame(self, frame: bytes, *, size: int | None = None) -> bytes | str:
        """Send one frame, whatever is in it."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_DEADLINE_S)
        try:
            self._socket.sendall(struct.pack(">i", len(frame) if size is None else size) + frame)
            answer = self._receive(struct.unpack(">i", self._receive(4))[0])
        except (ConnectionError, EOFError):
            self._hang_up()
            return CLOSED
        except TimeoutError:
            self._hang_up()
            return "nothing"
        return answer[4:]

    def _receive(self, count: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def versions_of(name: str) -> Iterable[int]:
    """Every version that Kafka 4.1 serves of an API, stable ones only."""
    api = API_BY_NAME[name]
    return range(api.versions.first, api.advertised.last + 1)


def latest(name: str) -> int:
    return API_BY_NAME[name].advertised.last


def at_most(name: str, version: int) -> int:
    """The version of one API that goes with `version` of another."""
    api = API_BY_NAME[name]
    return min(max(version, api.versions.first), api.advertised.last)


def request_form(api: Api, version: int, fields: Form) -> Form:
    return _filled(plan_message(api.request_class, version), fields)


def answer_form(api: Api, version: int, frame: bytes) -> Form:
    body = frame[api.response_header_version(version) :]
    return message_to_json(decode_message(api.response_class, version, body), version)


def is_settled(answer: Form) -> bool:
    """Whether the coordinator that was asked for, or that was asked, is there."""
    text = json.dumps(answer)
    return not any(f'rrorCode": {code}' in text for code in COORDINATOR_IS_BUSY)


def normal(value: Any, key: str = "") -> Any:
    """Reduce an answer to what two brokers have in common."""
    if isinstance(value, dict):
        return {name: _normal_field(name, item) for name, item in value.items() if name != "throttleTimeMs"}
    if isinstance(value, list):
        items = [normal(item) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if key in UNORDERED else items
    return value


def _normal_field(name: str, value: Any) -> Any:
    if name == "topicId":
        return "none" if value == NO_ID else "some"
    if name in TOLD_APART:
        return value and "some"
    if name in CHANCE:
        return "some" if value > 0 else value
    if name in ("producerId", "sessionId"):
        return "some" if value > 0 else value
    return normal(value, name)


def _filled(plan: StructPlan, fields: Form) -> Form:
    """Give the whole form: what is asked for, and defaults; what the version lacks is left out."""
    return {field.json_name: _filled_field(field, fields) for field in plan.present()}


def _filled_field(field: FieldPlan, fields: Form) -> Any:
    if field.json_name not in fields:
        return [] if field.default is not None and field.element is not None else _default(field)
    value = fields[field.json_name]
    if field.struct is None or value is None:
        return value
    if isinstance(value, list):
        return [_filled(field.struct, item) for item in value]
    return _filled(field.struct, value)


def _default(field: FieldPlan) -> Any:
    if field.struct is not None and not isinstance(field.default, list):
        return _filled(field.struct, {}) if field.default is not None else None
    if isinstance(field.default, bytes):
        return NO_ID if len(field.default) == len(ZERO_UUID) else ""
    return field.default
