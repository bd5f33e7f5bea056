"""`tailrace topics`: list, create, describe, alter and delete topics."""

from __future__ import annotations

import click

from tailrace.cli.cluster_session import (
    bootstrap_option,
    describe_error,
    parse_pairs,
    report,
    run_with_cluster,
    topic_name,
)
from tailrace.cli.table import number_list, show_table
from tailrace.client.address import Address
from tailrace.client.admin import Admin, AlterOperation, ConfigChange, NewTopic, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.client.errors import raise_for_code
from tailrace.client.metadata import TopicMetadata
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.uuid import uuid_text

_partitions = click.IntRange(min=1)
_config_option = click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting of the topic.")


@click.group()
def topics() -> None:
    """List, create, describe and delete topics."""


@topics.command("list")
@bootstrap_option
@click.option("--internal", is_flag=True, help="List the cluster's own topics, too.")
def list_topics(servers: tuple[Address, ...], internal: bool) -> None:
    """List topics with their numbers of partitions and replicas."""

    async def work(cluster: Cluster) -> list[TopicMetadata]:
        metadata = await Admin(cluster).describe_topics()
        return sorted(metadata.topics.values(), key=lambda topic: topic.name)

    rows = [
        (topic.name, len(topic.partitions), _replication_factor(topic))
        for topic in run_with_cluster(servers, work)
        if internal or not topic.is_internal
    ]
    show_table(["TOPIC", "#PARTITIONS", "#REPLICAS"], rows)


@topics.command()
@bootstrap_option
@click.argument("names", nargs=-1, required=True, type=topic_name, metavar="TOPIC...")
@click.option("--partitions", type=_partitions, help="How many partitions [the broker's num.partitions].")
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32767),
    help="How many replicas of each [the broker's default.replication.factor].",
)
@_config_option
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that is there as it is.")
def create(
    servers: tuple[Address, ...],
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics."""
    settings = parse_pairs(configs, "--config")
    new = [NewTopic(name, partitions or -1, replication_factor or -1, settings) for name in names]
    results = run_with_cluster(servers, lambda cluster: Admin(cluster).create_topics(new))
    report(results, done="created", ignored=ErrorCode.TOPIC_ALREADY_EXISTS if if_not_exists else None)


@topics.command()
@bootstrap_option
@click.argument("names", nargs=-1, required=True, type=topic_name, metavar="TOPIC...")
@click.option("--if-exists", is_flag=True, help="Do not mind a topic that is not there.")
def delete(servers: tuple[Address, ...], names: tuple[str, ...], if_exists: bool) -> None:
    """Delete topics with all their records."""
    results = run_with_cluster(servers, lambda cluster: Admin(cluster).delete_topics(names))
    report(results, done="deleted", ignored=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if if_exists else None)


@topics.command()
@bootstrap_option
@click.argument("names", nargs=-1, type=topic_name, metavar="TOPIC...")
def describe(servers: tuple[Address, ...], names: tuple[str, ...]) -> None:
    """Show the partitions of topics, their leaders and replicas; of all topics where none is named."""

    async def work(cluster: Cluster) -> list[TopicMetadata]:
        metadata = await Admin(cluster).describe_topics(names or None)
        for topic in metadata.topics.values():
            raise_for_code(topic.error_code, f"topic {topic.name}")
        return sorted(metadata.topics.values(), key=lambda topic: topic.name)

    for topic in run_with_cluster(servers, work):
        show_table(
            ["TOPIC", "#PARTITION", "#LEADER", "#EPOCH", "REPLICAS", "IN SYNC", "OFFLINE"],
            [
                (
                    topic.name,
                    partition.partition,
                    partition.leader_id if partition.leader_id >= 0 else "none",
                    partition.leader_epoch,
                    number_list(partition.replicas),
                    number_list(partition.in_sync),
                    number_list(partition.offline),
                )
                for partition in topic.partitions.values()
            ],
            title=f"{topic.name} (id {uuid_text(topic.topic_id)})",
        )


@topics.command()
@bootstrap_option
@click.argument("name", type=topic_name, metavar="TOPIC")
@click.option("--partitions", type=_partitions, help="Raise the number of partitions to this.")
@_config_option
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Give a setting back its default.")
def alter(
    servers: tuple[Address, ...],
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Add partitions to a topic, or change its settings."""
    changes = [ConfigChange(key, value) for key, value in parse_pairs(configs, "--config").items()]
    changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in deleted]
    if partitions is None and not changes:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")

    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        if changes:
            await admin.alter_configs(ResourceType.TOPIC, name, changes)
        if partitions is not None:
            for error in (await admin.create_partitions({name: partitions})).values():
                if error is not None:
                    raise click.ClickException(f"{name}: {describe_error(error)}")

    run_with_cluster(servers, work)
    click.echo(f"altered {name}")


def _replication_factor(topic: TopicMetadata) -> int:
    """Give the number of replicas that each partition has, by the partition with the fewest."""
    return min((len(partition.replicas) for partition in topic.partitions.values()), default=0)
