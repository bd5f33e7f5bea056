"""`tailrace produce`: writes the lines of a file, or of stdin, to a topic.

A line is a value, a key and a value around a separator, or a record in JSON (`record_lines`). Reading waits while the
producer's buffer is full, so memory stays bounded whatever the size of the file.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.cluster_session import (
    PATIENCE_MS,
    bootstrap_option,
    command_settings,
    describe_error,
    parse_pairs,
    run_with_cluster,
    topic_name,
)
from tailrace.cli.record_lines import BadLine, LineRecord, parse_json, parse_text
from tailrace.client.delivery import Delivery
from tailrace.client.errors import ClientError
from tailrace.client.producer import Producer
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.compression import Compression
from tailrace.settings.client_config import ProducerConfig
from tailrace.settings.config_error import ConfigError

if TYPE_CHECKING:
    from collections.abc import Generator

    from tailrace.client.address import Address
    from tailrace.client.cluster import Cluster

_CHUNK_BYTES = 256 * 1024


@click.command()
@bootstrap_option
@click.argument("topic", type=topic_name, metavar="TOPIC")
@click.option(
    "--file", "source", type=click.File("rb", lazy=False), default="-", help="What to read; - is stdin [stdin]."
)
@click.option("--json", "is_json", is_flag=True, help="A line is {key, value, headers, partition, timestamp}.")
@click.option("--key-separator", help="A line is a key, this, and a value.")
@click.option("--key", help="The key of every record that has none.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record.")
@click.option("--partition", type=click.IntRange(min=0), help="The partition [by the key, else spread].")
@click.option("--compression", type=click.Choice([c.label for c in Compression]), default="none", show_default=True)
@click.option(
    "--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True, help="Who has to have it."
)
@click.option("--batch-bytes", type=click.IntRange(1), default=256 * 1024, show_default=True)
@click.option("--linger-ms", type=click.IntRange(0), default=5, show_default=True)
@click.option("--quiet", is_flag=True, help="Do not say how many records were written.")
def produce(
    servers: tuple[Address, ...],
    topic: str,
    source: Any,
    is_json: bool,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    batch_bytes: int,
    linger_ms: int,
    quiet: bool,
) -> None:
    """Write records to a topic, a line each, from stdin or a file."""
    if is_json and key_separator is not None:
        raise click.UsageError("--key-separator is for plain lines; --json has the key in its field")
    if key_separator == "":
        raise click.UsageError("--key-separator may not be empty")
    separator = None if key_separator is None else key_separator.encode()
    common = LineRecord(
        value=None,
        key=None if key is None else key.encode(),
        headers=[(name, value.encode()) for name, value in parse_pairs(headers, "--header").items()],
        partition=partition,
    )
    options = {
        "acks": ("acks", acks),
        "compression": ("compression.type", compression),
        "batch_bytes": ("batch.size", batch_bytes),
        "linger_ms": ("linger.ms", linger_ms),
    }
    try:
        config = ProducerConfig({"max.block.ms": PATIENCE_MS, **command_settings(ProducerConfig, options)})
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint="--command-config") from None

    def parse(line: bytes) -> LineRecord:
        record = parse_json(line) if is_json else parse_text(line, key_separator=separator)
        return _complete(record, common)

    async def work(cluster: Cluster) -> None:
        with _progress(source) as advance:
            writer = _Writer(topic, parse, config, advance)
            await writer.write(cluster, source)
        if not quiet:
            seconds = max(cluster.clock.monotonic() - writer.started_at, 1e-9)
            rate = f"{writer.written_count / seconds:,.0f}"
            click.echo(f"{writer.written_count:,} records to {topic} in {seconds:.2f} s ({rate} a second)", err=True)

    run_with_cluster(servers, work)


class _Writer:
    """Writes lines until they end or one fails."""

    def __init__(
        self,
        topic: str,
        parse: Callable[[bytes], LineRecord],
        config: ProducerConfig,
        advance: Callable[[int], None],
    ) -> None:
        self._topic = topic
        self._parse = parse
        self._config = config
        self._advance = advance
        self._failure: BaseException | None = None
        self.written_count = 0
        self.started_at = 0.0

    async def write(self, cluster: Cluster, source: Any) -> None:
        """Write every line of `source`; ClickException names the first that failed."""
        self.started_at = cluster.clock.monotonic()
        number = 0
        async with Producer(self._config, cluster=cluster) as producer:
            async for line in _read_lines(source.fileno(), self._config.max_request_size):
                number += 1
                try:
                    record = self._parse(line)
                    delivery = await producer.send(
                        self._topic,
                        record.value,
                        key=record.key,
                        partition=record.partition,
                        headers=record.headers,
                        timestamp_ms=record.timestamp_ms,
                    )
                except (BadLine, ApiError, ClientError) as error:
                    await producer.flush()
                    raise click.ClickException(f"line {number}: {describe_error(error)}") from None
                delivery.add_done_callback(self._delivered)
                self._advance(len(line) + 1)
                if self._failure is not None:
                    break
            await producer.flush()
        if self._failure is not None:
            reason = describe_error(self._failure) if isinstance(self._failure, Exception) else str(self._failure)
            raise click.ClickException(f"after {self.written_count:,} records: {reason}")

    def _delivered(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.written_count += 1
        elif self._failure is None:
            self._failure = error


def _complete(record: LineRecord, common: LineRecord) -> LineRecord:
    """Fill in what the options say of every record."""
    if common.key is None and not common.headers and common.partition is None:
        return record
    return replace(
        record,
        key=common.key if record.key is None else record.key,
        headers=[*record.headers, *common.headers],
        partition=common.partition if record.partition is None else record.partition,
    )


async def _read_lines(descriptor: int, line_bytes_max: int) -> AsyncIterator[bytes]:
    """Give the lines of a file, pipe or terminal as they come, without their ends."""
    rest = b""
    async for chunk in _read_chunks(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > line_bytes_max:
            raise click.ClickException(f"a line of more than {line_bytes_max:,} bytes")
    if rest:
        yield rest


async def _read_chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Read without blocking the event loop: a pipe or terminal when it is readable, a regular file at once."""
    loop = asyncio.get_running_loop()
    is_waited_for = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        if is_waited_for:
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(descriptor, _set_once, readable)
            try:
                await readable
            finally:
                loop.remove_reader(descriptor)
        else:
            await asyncio.sleep(0)
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _set_once(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@contextmanager
def _progress(source: Any) -> Generator[Callable[[int], None]]:
    """Show how much of a file is written, where somebody watches and it is a file."""
    size = os.fstat(source.fileno()).st_size
    if not sys.stderr.isatty() or size == 0 or source.fileno() == sys.stdin.fileno():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("produce", total=size)
        yield lambda count: progress.advance(task, count)
