"""`tailrace wire`: messages of Kafka's protocol from bytes to something readable, and back.

With --jsonl it is a filter: a line of JSON in, a line of JSON out, in the form of Apache Kafka's own JSON converters.
Without, it is for a person with one captured frame. How a dump is read is in `wire_dump`, how a message is shown in
`wire_tree`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

InputArgument = click.argument("source", required=False, metavar="[INPUT]")
JsonlOption = click.option("--jsonl", is_flag=True, help="A line of JSON for each message, from stdin to stdout.")
TypeOption = click.option("--type", "type_name", metavar="NAME", help="The message, such as FetchResponse or Fetch.")
VersionOption = click.option("--version", type=int, metavar="N", help="The version of the message.")


@click.group()
def wire() -> None:
    """Decode and encode messages of Kafka's protocol."""


@wire.command()
@InputArgument
@JsonlOption
@TypeOption
@VersionOption
@click.option("--response", is_flag=True, help="The bytes are a response; the type may then be an API's name.")
def decode(source: str | None, jsonl: bool, type_name: str | None, version: int | None, response: bool) -> int:
    """Show what a captured message says.

    INPUT is a hex dump: plain, or as xxd, hexdump -C and tcpdump print it; in the argument itself, in a file of that
    name, or from stdin. A request frame says by its header what it is. A response or a body does not, and needs --type
    and --version.

    With --jsonl, lines {"type", "version", "hex"} become lines {"type", "version", "json"}.
    """
    if jsonl:
        _refuse_with_jsonl(source, type_name, version, response)
        return _filter_lines(_decode_line)
    from tailrace.cli.wire_dump import UnreadableDump, parse_dump, read_messages
    from tailrace.cli.wire_tree import render

    try:
        data = parse_dump(_read_source(source))
        for found in read_messages(data, type_name=type_name, version=version, is_response=response):
            click.echo("\n".join(render(found)))
    except UnreadableDump as error:
        raise click.ClickException(str(error)) from None
    return 0


@wire.command()
@InputArgument
@JsonlOption
@TypeOption
@VersionOption
def encode(source: str | None, jsonl: bool, type_name: str | None, version: int | None) -> int:
    """Write a message's body as hex.

    INPUT is JSON, in the argument itself, in a file of that name, or from stdin: {"type", "version", "json"}, or with
    --type and --version the message's fields alone.

    With --jsonl, lines {"type", "version", "json"} become lines {"type", "version", "hex"}.
    """
    if jsonl:
        _refuse_with_jsonl(source, type_name, version, False)
        return _filter_lines(_encode_line)
    import json

    try:
        row = json.loads(_read_source(source))
        if type_name is not None or version is not None:
            row = {"type": type_name, "version": version, "json": row}
        click.echo(_encode_line(row)["hex"])
    except (ValueError, RecursionError) as error:
        raise click.ClickException(_reason(error)) from None
    return 0


def _refuse_with_jsonl(source: str | None, type_name: str | None, version: int | None, response: bool) -> None:
    if source is not None or type_name is not None or version is not None or response:
        raise click.UsageError("--jsonl reads stdin, and each line says its type and version: give nothing else")


def _read_source(source: str | None) -> str:
    """Give the text of a file of that name, else the argument itself; without one, what stdin has."""
    if source is None or source == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        path = Path(source)
        return path.read_text("utf-8", "replace") if path.is_file() else source
    except (OSError, ValueError):
        return source  # Longer than a file name can be, so it is the dump itself.


def _filter_lines(convert: Callable[[Any], dict[str, Any]]) -> int:
    """Convert stdin line by line; a bad line is named on stderr, and the others still go through."""
    import json

    exit_code = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            converted = json.dumps(convert(json.loads(line)), ensure_ascii=False, separators=(",", ":"))
            output = converted.encode()
        except (ValueError, RecursionError) as error:
            click.echo(f"line {number}: {_reason(error)}", err=True)
            exit_code = 1
            continue
        sys.stdout.buffer.write(output + b"\n")
    sys.stdout.buffer.flush()
    return exit_code


def _decode_line(row: Any) -> dict[str, Any]:
    from tailrace.protocol.api_keys import find_message_class
    from tailrace.protocol.codec import decode_message
    from tailrace.protocol.errors import MalformedFrame
    from tailrace.protocol.json_form import message_to_json

    type_name, version, text = _members(row, "hex")
    if not isinstance(text, str):
        raise ValueError(f"hex is not text: {text!r:.100}")
    try:
        message = decode_message(find_message_class(type_name), version, bytes.fromhex(text))
    except MalformedFrame as error:
        raise ValueError(str(error)) from error
    return {"type": type_name, "version": version, "json": message_to_json(message, version)}


def _encode_line(row: Any) -> dict[str, Any]:
    from tailrace.protocol.api_keys import find_message_class
    from tailrace.protocol.codec import encode_message
    from tailrace.protocol.json_form import message_from_json

    type_name, version, form = _members(row, "json")
    message = message_from_json(find_message_class(type_name), version, form)
    return {"type": type_name, "version": version, "hex": encode_message(message, version).hex()}


def _members(row: Any, content: str) -> tuple[str, int, Any]:
    """Give type, version and content of a line."""
    row = _object(row, content)
    missing = [name for name in ("type", "version", content) if name not in row]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    type_name, version = row["type"], row["version"]
    if not isinstance(type_name, str):
        raise ValueError(f"type is not text: {type_name!r:.100}")
    if type(version) is not int:
        raise ValueError(f"version is not a whole number: {version!r:.100}")
    return type_name, version, row[content]


def _object(row: Any, content: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f'not an object with "type", "version" and "{content}": {row!r:.100}')
    return row  # pyright: ignore[reportUnknownVariableType]


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
