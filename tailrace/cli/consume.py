"""`tailrace consume`: reads records of a topic and prints them, a line each.

Partitions are read side by side, so order holds within a partition only. Without a limit it goes on until Ctrl-C; with
--exit-at-end it stops at the ends that the partitions had when it began.
"""

from __future__ import annotations

import sys

import click

from tailrace.cli.cluster_session import bootstrap_option, run_with_cluster, topic_name
from tailrace.cli.record_lines import FORMATS, format_record
from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import EARLIEST, LATEST, Consumer, ConsumerConfig
from tailrace.client.offsets import list_offsets
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition

_POLL_RECORDS = 5_000
_ISOLATION = ("read_uncommitted", "read_committed")


def _start(text: str) -> int:
    """Read an offset, or a word for one."""
    if text in ("earliest", "beginning"):
        return EARLIEST
    if text in ("latest", "end"):
        return LATEST
    if not text.isdecimal() or int(text) >= 2**63:
        raise click.BadParameter(f"{text!r} is neither an offset nor earliest or latest")
    return int(text)


@click.command()
@bootstrap_option
@click.argument("topic", type=topic_name, metavar="TOPIC")
@click.option("--from-beginning", is_flag=True, help="The same as --offset earliest.")
@click.option(
    "--offset", "start", type=_start, metavar="OFFSET", help="Where to begin: a number, earliest or latest [latest]."
)
@click.option("--from-time", type=click.IntRange(0), metavar="MS", help="Begin at this time, in ms since 1970.")
@click.option(
    "--partition", "partitions", multiple=True, type=click.IntRange(0), help="Read this one only; repeatable."
)
@click.option("--max-messages", type=click.IntRange(1), help="Stop after so many records.")
@click.option("--exit-at-end", is_flag=True, help="Stop at the present end of the partitions.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop when nothing has come for so long.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="value", show_default=True, help="What a line is."
)
@click.option("--key-separator", default="\t", help="What stands between key and value [a tab].")
@click.option(
    "--isolation",
    type=click.Choice(_ISOLATION),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are shown.",
)
def consume(
    servers: tuple[Address, ...],
    topic: str,
    from_beginning: bool,
    start: int | None,
    from_time: int | None,
    partitions: tuple[int, ...],
    max_messages: int | None,
    exit_at_end: bool,
    timeout_ms: int | None,
    form: str,
    key_separator: str,
    isolation: str,
) -> None:
    """Read records from a topic and print them."""
    if from_beginning + (start is not None) + (from_time is not None) > 1:
        raise click.UsageError("--from-beginning, --offset and --from-time exclude each other")
    if start is not None and start >= 0 and len(partitions) != 1:
        raise click.UsageError("an --offset that is a number needs one --partition")
    config = ConsumerConfig({"isolation_level": isolation, "max_poll_records": _POLL_RECORDS})
    separator = key_separator.encode()

    async def work(cluster: Cluster) -> None:
        keys = await _find_partitions(cluster, topic, partitions)
        begin = EARLIEST if from_beginning else LATEST if start is None else start
        starts = dict.fromkeys(keys, begin) if from_time is None else await _by_time(cluster, keys, from_time)
        async with Consumer(config, cluster=cluster) as consumer:
            consumer.assign(starts)
            for key, begins_at in starts.items():
                _seek(consumer, key, begins_at)
            ends = await consumer.end_offsets(keys) if exit_at_end else None
            await _print(consumer, ends, max_messages, timeout_ms, form, separator)

    run_with_cluster(servers, work)


def _seek(consumer: Consumer[bytes, bytes], key: TopicPartition, begins_at: int) -> None:
    if begins_at == EARLIEST:
        consumer.seek_to_beginning(key)
    elif begins_at == LATEST:
        consumer.seek_to_end(key)
    else:
        consumer.seek(key, begins_at)


async def _print(
    consumer: Consumer[bytes, bytes],
    ends: dict[TopicPartition, int] | None,
    max_messages: int | None,
    timeout_ms: int | None,
    form: str,
    separator: bytes,
) -> None:
    """Print records until one of the limits is reached."""
    left = max_messages
    while left != 0 and not (ends is not None and await _at_end(consumer, ends)):
        limit = _POLL_RECORDS if left is None else min(left, _POLL_RECORDS)
        records = await consumer.poll(timeout_ms=timeout_ms or 500, max_records=limit)
        if not records and timeout_ms is not None:
            return
        if ends is not None:
            records = [r for r in records if r.offset < ends[TopicPartition(r.topic, r.partition)]]
        sys.stdout.buffer.write(b"".join(format_record(r, form, key_separator=separator) for r in records))
        sys.stdout.buffer.flush()
        if left is not None:
            left -= len(records)


async def _at_end(consumer: Consumer[bytes, bytes], ends: dict[TopicPartition, int]) -> bool:
    """Whether every partition was read up to its end."""
    for key, end in ends.items():
        if await consumer.position(key) < end:
            return False
    return True


async def _find_partitions(cluster: Cluster, topic: str, wanted: tuple[int, ...]) -> list[TopicPartition]:
    metadata = await cluster.metadata([topic])
    known = metadata.topics.get(topic)
    if known is None or known.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise click.ClickException(f"there is no topic {topic}")
    found = await cluster.retrying(f"looking for topic {topic}", lambda: cluster.topic(topic))
    missing = [number for number in wanted if number not in found.partitions]
    if missing:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic} has partitions 0 to {len(found.partitions) - 1}, not {missing[0]}",
        )
    return [TopicPartition(topic, number) for number in wanted or found.partitions]


async def _by_time(cluster: Cluster, keys: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """Find where to begin for a time: at the first record from then on, else at the end."""
    found = await list_offsets(cluster, dict.fromkeys(keys, timestamp))
    return {key: place.offset if place.offset >= 0 else LATEST for key, place in found.items()}
