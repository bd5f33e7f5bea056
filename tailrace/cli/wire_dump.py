"""What a hex dump holds: its bytes, and the message in them.

A dump may be plain hex with any spacing, or what xxd, hexdump -C and tcpdump print. A request frame, with its size in
front or without, says by its header what it is. A response and a body without header need to be told.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tailrace.protocol.api_keys import APIS, Api, find_message_class
from tailrace.protocol.codec import decode_message, decode_prefix
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.messages.headers import RequestHeader, ResponseHeader
from tailrace.protocol.schema import Message


class UnreadableDump(Exception):
    """A dump that is no hex, or bytes that are no message; the text says which."""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message of a dump, with its header where there was one."""

    message: Message
    version: int
    body_bytes: int
    header: Message | None = None
    header_version: int = 0


# An offset and a colon, as xxd and tcpdump print; then hex in groups, and text after two spaces.
_colon_line = re.compile(r"^\s*(?:0x)?[0-9a-fA-F]+:\s+((?:[0-9a-fA-F]+ )*[0-9a-fA-F]+)(?:\s{2}.*|\s*)$")
# An offset and two spaces, bytes one by one, and text between bars, as hexdump -C prints.
_bar_line = re.compile(r"^\s*[0-9a-fA-F]{6,}\s+((?:[0-9a-fA-F]{2}\s+)+)\|.*$")
_offset_line = re.compile(r"^\s*[0-9a-fA-F]{6,}\s*$")
_noise = re.compile(r"0x|\\x|[\s:,;\"'|\[\]{}()<>_-]+")


def parse_dump(text: str) -> bytes:
    """Give the bytes of a hex dump."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UnreadableDump("there is nothing to decode")
    digits: list[str] = []
    has_bars = any(_bar_line.match(line) for line in lines)
    for number, line in enumerate(lines, 1):
        if has_bars and _offset_line.match(line):
            continue  # The last line of hexdump -C says only where the dump ends.
        found = _bar_line.match(line) or _colon_line.match(line)
        plain = _noise.sub("", found[1] if found else line)
        if not re.fullmatch("[0-9a-fA-F]*", plain):
            raise UnreadableDump(f"line {number} is not a hex dump: {line.strip()[:80]!r}")
        digits.append(plain)
    joined = "".join(digits)
    if len(joined) % 2:
        raise UnreadableDump(f"an odd number of hex digits: {len(joined)}")
    return bytes.fromhex(joined)


def read_messages(
    data: bytes, *, type_name: str | None = None, version: int | None = None, is_response: bool = False
) -> Iterator[FoundMessage]:
    """Give the message in the bytes, or each of several frames that follow one another."""
    if (type_name is None) != (version is None):
        raise UnreadableDump("--type and --version go together")
    if is_response and type_name is None:
        raise UnreadableDump("a response does not say what it is: give --type and --version")
    try:
        if type_name is None or version is None:
            yield from _read_requests(data)
        else:
            yield from _read_known(data, _full_name(type_name, is_response=is_response), version)
    except (MalformedFrame, ValueError) as error:
        raise UnreadableDump(str(error)) from error


def _frames(data: bytes) -> list[bytes]:
    """Cut bytes into frames, where each begins with its size and the last one ends with the bytes."""
    frames: list[bytes] = []
    position = 0
    while position + 4 <= len(data):
        size: int = struct.unpack_from(">i", data, position)[0]
        if size <= 0:
            return []
        frames.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return frames if position == len(data) else []


def _full_name(name: str, *, is_response: bool) -> str:
    """Make FetchRequest or FetchResponse of `Fetch`, of `fetch`, and of `1`."""
    if name.isdecimal() and int(name) in APIS:
        name = APIS[int(name)].name
    names = {api.name.lower(): api.name for api in APIS.values()}
    name = names.get(name.lower().replace("_", ""), name)
    if name in names.values():
        return name + ("Response" if is_response else "Request")
    if is_response and name.endswith("Request"):
        raise ValueError(f"{name} is no response")
    return name


def _read_requests(data: bytes) -> list[FoundMessage]:
    """Read frames with their sizes, or one without; four bytes that only look like a size are possible."""
    frames = _frames(data)
    try:
        return [_read_request(frame) for frame in frames or [data]]
    except MalformedFrame as error:
        if frames:
            try:
                return [_read_request(data)]
            except MalformedFrame:
                raise error from None
        size = int.from_bytes(data[:4], "big")
        if len(data) - 4 < size < len(data) + 1_000_000 and int.from_bytes(data[4:6], "big") in APIS:
            raise MalformedFrame(f"the frame says it has {size} bytes; {len(data) - 4} follow ({error})") from error
        raise


def _read_request(frame: bytes) -> FoundMessage:
    if len(frame) < 8:
        raise MalformedFrame(
            f"{len(frame)} bytes are too few for a request; for another message give --type, --version"
        )
    api_key, version = struct.unpack_from(">hh", frame)
    api = APIS.get(api_key)
    if api is None:
        raise MalformedFrame(f"no request has the API key {api_key}; for another message give --type and --version")
    if version not in api.versions:
        raise MalformedFrame(f"{api.name} has versions {api.versions}, not {version}")
    return _read_with_header(frame, api.request_class, api, version)


def _read_known(data: bytes, name: str, version: int) -> list[FoundMessage]:
    """Read bytes whose type is known: a body alone, or frames, or a body behind its header."""
    cls = find_message_class(name)
    try:
        return [FoundMessage(decode_message(cls, version, data), version, len(data))]
    except MalformedFrame as error:
        if cls.api_key is None:
            raise
        for frames in (_frames(data), [data]):
            with suppress(MalformedFrame):
                found = [_read_with_header(frame, cls, APIS[cls.api_key], version) for frame in frames]
                if found:
                    return found
        raise error from None


def _read_with_header(frame: bytes, cls: type[Message], api: Api, version: int) -> FoundMessage:
    is_request = cls is api.request_class
    header_version = api.request_header_version(version) if is_request else api.response_header_version(version)
    header_class = RequestHeader if is_request else ResponseHeader
    header, position = decode_prefix(header_class, header_version, frame)
    message = decode_message(cls, version, frame, position)
    return FoundMessage(message, version, len(frame) - position, header, header_version)
