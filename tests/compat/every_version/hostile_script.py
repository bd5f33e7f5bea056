"""What no client of sound mind sends: versions that are not served, keys that are no API, bytes that are no request."""

from __future__ import annotations

import struct

from tailrace.protocol.codec import encode_message
from tailrace.protocol.json_form import message_from_json
from tests.compat.every_version.conversation import (
    API_BY_NAME,
    CLOSED,
    Conversation,
    latest,
    request_form,
)

NAMES = ("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "JoinGroup", "CreateTopics", "InitProducerId")
SIZE_MAX = 104_857_600


def ask_all(talk: Conversation) -> None:
    for name in NAMES:
        api = API_BY_NAME[name]
        for version in (api.versions.first - 1, api.versions.last + 1, 30_000, -1):
            talk.answers[f"{name} of version {version}"] = told(talk.send(api.key, version, b"\x00" * 8))
    for key in (4, 5, 6, 7, 52, 62, 100, 9_999, -1):
        talk.answers[f"API {key}"] = told(talk.send(key, 0, b""))
    api_versions_of_the_future(talk)
    broken_bodies(talk)
    broken_frames(talk)


def told(answer: bytes | str) -> str:
    return answer if isinstance(answer, str) else f"answered with error {struct.unpack('>h', answer[:2])[0]}"


def api_versions_of_the_future(talk: Conversation) -> None:
    for version in (5, 99, 32_767, -1):
        talk.answers[f"ApiVersions of version {version}"] = told(talk.send(18, version, b"", is_flexible=version >= 3))


def broken_bodies(talk: Conversation) -> None:
    for name in NAMES:
        api = API_BY_NAME[name]
        version = latest(name)
        body = encode_message(message_from_json(api.request_class, version, request_form(api, version, {})), version)
        is_flexible = version >= api.flexible_from
        for title, broken in (("cut", body[:-1]), ("empty", b""), ("of ones", b"\xff" * 40)):
            talk.answers[f"{name} {title}"] = told(talk.send(api.key, version, broken, is_flexible=is_flexible))


def broken_frames(talk: Conversation) -> None:
    header = struct.pack(">hhi", 3, 1, 7)
    for title, frame, size in (
        ("an empty frame", b"", None),
        ("half a header", header[:5], None),
        ("a negative size", b"", -5),
        ("a frame that is too large", b"", SIZE_MAX + 1),
        ("a client id longer than the frame", header + b"\x7f\xff", None),
        ("a client id that is no text", header + b"\x00\x02\xff\xfe" + b"\x00\x00\x00\x00", None),
        ("no client id", header + b"\xff\xff" + b"\x00\x00\x00\x00", None),
    ):
        answer = talk.send_frame(frame, size=size)
        talk.answers[title] = answer if answer == CLOSED or isinstance(answer, str) else "answered"
