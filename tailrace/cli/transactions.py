"""`tailrace transactions`: list and describe transactions, find those that hang, and end what will not end by itself.

A transaction hangs where a partition waits for its end and no coordinator will bring it: readers of committed records
stand still there. `find-hanging` shows them with the command that ends each.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from tailrace.cli.cluster_session import bootstrap_option, describe_error, report, run_with_cluster, topic_name
from tailrace.cli.group_tables import partition_list
from tailrace.cli.table import show_table
from tailrace.client.address import Address
from tailrace.client.admin import (
    Admin,
    HangingTransaction,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from tailrace.client.cluster import Cluster
from tailrace.client.errors import BrokerError, raise_for_code
from tailrace.protocol.topic_partition import TopicPartition

_partition = click.option("--partition", type=click.IntRange(0), required=True, help="The partition.")
_topic = click.option("--topic", type=topic_name, required=True, help="The topic.")
_broker_id = click.option("--broker-id", type=click.IntRange(0), help="Ask this broker in place of the leaders.")
_MINUTE_MS = 60_000


@click.group()
def transactions() -> None:
    """List and describe transactions, find and end those that hang."""


@transactions.command("list")
@bootstrap_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in TransactionState][1:], case_sensitive=False),
    help="List those in this state only; repeatable.",
)
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=click.IntRange(0), help="Of this producer; repeatable."
)
@click.option("--longer-than-ms", type=click.IntRange(0), help="List what has been running for longer.")
@click.option("--pattern", metavar="REGEX", help="List transactional ids that this matches whole.")
def list_transactions(
    servers: tuple[Address, ...],
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    pattern: str | None,
) -> None:
    """List transactional ids with their coordinators and states."""

    async def work(cluster: Cluster) -> list[TransactionListing]:
        return await Admin(cluster).list_transactions(
            states=[TransactionState.parse(text) for text in states],
            producer_ids=producer_ids,
            running_longer_than_ms=longer_than_ms,
            transactional_id_pattern=pattern,
        )

    rows = [
        (one.transactional_id, one.coordinator_id, one.producer_id, one.state)
        for one in run_with_cluster(servers, work)
    ]
    show_table(["TRANSACTIONAL ID", "#COORDINATOR", "#PRODUCER ID", "STATE"], rows)


@transactions.command()
@bootstrap_option
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL-ID...")
def describe(servers: tuple[Address, ...], names: tuple[str, ...]) -> None:
    """Show transactional ids with what their transactions have written to."""

    async def work(cluster: Cluster) -> tuple[dict[str, TransactionDescription | BrokerError], int]:
        return await Admin(cluster).describe_transactions(names), cluster.clock.time_ms()

    found, now = run_with_cluster(servers, work)
    columns = ["TRANSACTIONAL ID", "#COORDINATOR", "#PRODUCER ID", "#EPOCH", "STATE", "#TIMEOUT MS", "SINCE"]
    rows = [_description_row(one, now) for one in found.values() if isinstance(one, TransactionDescription)]
    show_table([*columns, "#DURATION MS", "PARTITIONS"], rows)
    failed = [f"{name}: {describe_error(one)}" for name, one in found.items() if isinstance(one, BrokerError)]
    if failed:
        raise click.ClickException("; ".join(failed))


@transactions.command()
@bootstrap_option
@_topic
@_partition
@_broker_id
def describe_producers(servers: tuple[Address, ...], topic: str, partition: int, broker_id: int | None) -> None:
    """Show the producers that a partition remembers, and where each has a transaction open."""

    async def work(cluster: Cluster) -> Sequence[PartitionProducer]:
        return await _producers(Admin(cluster), TopicPartition(topic, partition), broker_id)

    columns = ["#PRODUCER ID", "#EPOCH", "#COORDINATOR EPOCH", "#LAST SEQUENCE", "LAST TIME", "#TRANSACTION START"]
    rows = [
        (
            one.producer_id,
            one.producer_epoch,
            _or_none(one.coordinator_epoch),
            one.last_sequence,
            _time(one.last_timestamp),
            _or_none(one.transaction_start_offset),
        )
        for one in run_with_cluster(servers, work)
    ]
    show_table(columns, rows)


@transactions.command()
@bootstrap_option
@click.option("--topic", type=topic_name, help="Look in this topic.")
@click.option("--partition", type=click.IntRange(0), help="Look in this partition of the topic.")
@click.option("--broker-id", type=click.IntRange(0), help="Look in what this broker has, and as it sees it.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="Minutes after which a coordinator would have ended a transaction.",
)
def find_hanging(
    servers: tuple[Address, ...], topic: str | None, partition: int | None, broker_id: int | None, minutes: int
) -> None:
    """Find transactions that partitions wait for and no coordinator will end; `abort` ends them."""
    if topic is None and (broker_id is None or partition is not None):
        raise click.UsageError("give --topic or --broker-id; --partition needs --topic")

    async def work(cluster: Cluster) -> list[HangingTransaction]:
        admin = Admin(cluster)
        partitions = await _partitions(admin, topic, partition, broker_id)
        return await admin.find_hanging_transactions(
            partitions, broker_id=broker_id, running_longer_than_ms=minutes * _MINUTE_MS
        )

    columns = ["TOPIC", "#PARTITION", "#PRODUCER ID", "#EPOCH", "#COORDINATOR EPOCH", "#TRANSACTION START", "LAST TIME"]
    rows = [
        (
            one.topic_partition.topic,
            one.topic_partition.partition,
            one.producer.producer_id,
            one.producer.producer_epoch,
            _or_none(one.producer.coordinator_epoch),
            _or_none(one.producer.transaction_start_offset),
            _time(one.producer.last_timestamp),
        )
        for one in run_with_cluster(servers, work)
    ]
    show_table(columns, rows)


@transactions.command()
@bootstrap_option
@_topic
@_partition
@click.option("--start-offset", type=click.IntRange(0), help="Where the transaction begins in the partition.")
@click.option("--producer-id", type=click.IntRange(0), help="Its producer, where no offset is given.")
@click.option("--producer-epoch", type=click.IntRange(0, 32767), help="With --producer-id.")
@click.option("--coordinator-epoch", type=click.IntRange(0), help="With --producer-id.")
def abort(
    servers: tuple[Address, ...],
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """End a hanging transaction on one partition; what it wrote there is never read as committed."""
    key = TopicPartition(topic, partition)
    named = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (None in named) or (start_offset is not None and named != (None, None, None)):
        raise click.UsageError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")

    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        ids = named
        if start_offset is not None:
            producers = await _producers(admin, key, None)
            found = [one for one in producers if one.transaction_start_offset == start_offset]
            if not found:
                raise click.ClickException(f"no transaction is open at offset {start_offset} of {key}")
            ids = (found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch)
        await admin.abort_transaction(
            key, producer_id=ids[0] or 0, producer_epoch=ids[1] or 0, coordinator_epoch=ids[2] or 0
        )

    run_with_cluster(servers, work)
    click.echo(f"aborted {key}")


@transactions.command()
@bootstrap_option
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL-ID...")
def force_terminate(servers: tuple[Address, ...], names: tuple[str, ...]) -> None:
    """Abort what transactional ids have open, and shut their producers out."""
    report(run_with_cluster(servers, lambda cluster: Admin(cluster).fence_producers(names)), done="terminated")


async def _producers(admin: Admin, key: TopicPartition, broker_id: int | None) -> Sequence[PartitionProducer]:
    producers = (await admin.describe_producers([key], broker_id=broker_id))[key]
    if isinstance(producers, BrokerError):
        raise producers
    return producers


async def _partitions(
    admin: Admin, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """Give the partitions to look in: of a topic, of a broker, of both."""
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    topics = (await admin.describe_topics(None if topic is None else [topic])).topics
    for one in topics.values():
        raise_for_code(one.error_code, f"topic {one.name}")
    return [
        TopicPartition(one.name, found.partition)
        for one in topics.values()
        for found in one.partitions.values()
        if broker_id is None or broker_id in found.replicas
    ]


def _description_row(one: TransactionDescription, now: int) -> tuple[object, ...]:
    since = one.start_time_ms if one.state.is_open else None
    return (
        one.transactional_id,
        one.coordinator_id,
        one.producer_id,
        one.producer_epoch,
        one.state,
        one.timeout_ms,
        "-" if since is None else _time(since),
        "-" if since is None else now - since,
        partition_list(one.partitions),
    )


def _time(milliseconds: int) -> str:
    if milliseconds < 0:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _or_none(number: int | None) -> object:
    return "-" if number is None else number
