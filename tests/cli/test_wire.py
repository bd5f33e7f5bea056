"""`tailrace wire`: every vector through the filter and back, and dumps as the usual tools print them."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from tailrace.cli.main import main
from tailrace.protocol.frame import encode_request, encode_response
from tailrace.protocol.messages.fetch import FetchResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.protocol.vectors import all_vectors


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


REQUEST = b"".join(
    encode_request(MetadataRequest(topics=[MetadataRequestTopic(name="flights")]), 9, correlation_id=7, client_id="me")
)
RESPONSE = b"".join(encode_response(FetchResponse(error_code=3), 12, correlation_id=8, header_version=1))


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_every_vector_goes_through_the_filter_and_back(stdin: Any, capsysbinary: Any) -> None:
    rows = [{"type": item.type, "version": item.version, "hex": item.body.hex()} for item in all_vectors()]
    stdin(lines(rows))
    assert main(["wire", "decode", "--jsonl"]) == 0
    decoded = capsysbinary.readouterr().out
    stdin(decoded)
    assert main(["wire", "encode", "--jsonl"]) == 0
    assert [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()] == rows


def test_a_bad_line_is_named_and_the_others_go_through(stdin: Any, capsysbinary: Any) -> None:
    good = {"type": "ResponseHeader", "version": 0, "hex": "00000007"}
    bad = [
        b'{"type":"Nonsense","version":0,"hex":""}',
        b'{"type":"ResponseHeader","version":7,"hex":"00000007"}',
        b'{"type":"ResponseHeader","version":0,"hex":"000000"}',
        b'{"type":"ResponseHeader","version":0,"hex":"0"}',
        b'{"type":"ResponseHeader","version":true,"hex":"00000007"}',
        b'{"type":"ResponseHeader","version":0}',
        b"[1, 2]",
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
    ]
    stdin(b"\n".join([lines([good]).strip(), *bad, lines([good])]))
    assert main(["wire", "decode", "--jsonl"]) == 1
    captured = capsysbinary.readouterr()
    assert captured.out == b'{"type":"ResponseHeader","version":0,"json":{"correlationId":7}}\n' * 2
    errors = captured.err.decode().splitlines()
    assert [line.partition(":")[0] for line in errors] == [f"line {number}" for number in range(2, 12)]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({}, "correlationId is missing"),
        ({"correlationId": None}, "correlationId is null"),
        ({"correlationId": "7"}, "correlationId is not of type int"),
        ({"correlationId": 7, "more": 1}, "has no more"),
        ({"correlationId": 2**31}, "ResponseHeader v0"),
        (7, "not an object"),
    ],
)
def test_json_that_is_no_message_says_why(form: Any, says: str, stdin: Any, capsysbinary: Any) -> None:
    stdin(lines([{"type": "ResponseHeader", "version": 0, "json": form}]))
    assert main(["wire", "encode", "--jsonl"]) == 1
    captured = capsysbinary.readouterr()
    assert captured.out == b""
    assert says in captured.err.decode()


def xxd(data: bytes) -> str:
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    return "\n".join(f"{index * 16:08x}: {row.hex(' ', 2):<39}  {'.' * len(row)}" for index, row in enumerate(rows))


def hexdump(data: bytes) -> str:
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    text = [
        f"{index * 16:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  |{'a' * len(row)}|"
        for index, row in enumerate(rows)
    ]
    return "\n".join([*text, f"{len(data):08x}"])


def tcpdump(data: bytes) -> str:
    return "\n".join("\t0x00" + line[6:8] + ":" + line[9:] for line in xxd(data).splitlines())


@pytest.mark.parametrize(
    "dump",
    [
        REQUEST.hex(),
        REQUEST.hex(" ").upper(),
        REQUEST[4:].hex(":"),
        "0x" + REQUEST.hex(),
        "".join(f"\\x{byte:02x}" for byte in REQUEST),
        xxd(REQUEST),
        hexdump(REQUEST),
        tcpdump(REQUEST),
    ],
)
def test_a_captured_request_says_what_it_is_in_any_dump(dump: str, stdin: Any, capsys: Any) -> None:
    stdin(dump.encode())
    assert main(["wire", "decode"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "RequestHeader v2"
    assert "  requestApiKey: 3 (Metadata)" in shown
    assert '  clientId: "me"' in shown
    assert "MetadataRequest v9 (key 3), 14 bytes" in shown
    assert '      name: "flights"' in shown


def test_frames_that_follow_one_another_are_all_shown(capsys: Any) -> None:
    assert main(["wire", "decode", (REQUEST * 3).hex()]) == 0
    assert capsys.readouterr().out.count("MetadataRequest v9") == 3


@pytest.mark.parametrize("data", [RESPONSE, RESPONSE[4:], RESPONSE[9:]], ids=["frame", "without size", "body"])
@pytest.mark.parametrize("options", [["--response", "--type", "fetch"], ["--type", "FetchResponse"]])
def test_a_response_is_read_when_its_type_is_given(data: bytes, options: list[str], capsys: Any) -> None:
    assert main(["wire", "decode", data.hex(), *options, "--version", "12"]) == 0
    shown = capsys.readouterr().out
    assert "FetchResponse v12 (key 1), 12 bytes" in shown
    assert "errorCode: 3 (UNKNOWN_TOPIC_OR_PARTITION)" in shown
    assert ("correlationId: 8" in shown) == (data != RESPONSE[9:])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no hex at all"], "not a hex dump"),
        (["123"], "odd number of hex digits"),
        ([" "], "nothing to decode"),
        (["00"], "too few for a request"),
        (["00630000000000070000"], "no request has the API key 99"),
        (["00030063000000070000"], "Metadata has versions 0-13, not 99"),
        (["--type", "Fetch", "00"], "--type and --version go together"),
        (["--response", "00"], "give --type and --version"),
        (["--type", "Nonsense", "--version", "0", "00"], "no message is named 'Nonsense'"),
        ([REQUEST[:-1].hex()], "the frame says it has 27 bytes; 26 follow"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(arguments: list[str], says: str, capsys: Any) -> None:
    assert main(["wire", "decode", *arguments]) == 1
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_a_file_is_read_by_its_name(tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "request.txt"
    path.write_text(xxd(REQUEST))
    assert main(["wire", "decode", str(path)]) == 0
    assert "MetadataRequest v9" in capsys.readouterr().out


def test_one_message_is_encoded_with_type_and_version_beside_it_or_inside(capsys: Any) -> None:
    assert main(["wire", "encode", '{"correlationId": 7}', "--type", "ResponseHeader", "--version", "1"]) == 0
    assert main(["wire", "encode", '{"type": "ResponseHeader", "version": 0, "json": {"correlationId": 7}}']) == 0
    assert capsys.readouterr().out == "0000000700\n00000007\n"
