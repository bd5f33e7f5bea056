"""`tailrace groups`: list and describe consumer groups, move and delete their offsets, delete them.

Lag is what lies between a committed offset and the end of its partition. `-` stands for what is not there: an offset
that was never committed, a partition that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from tailrace.cli.cluster_session import bootstrap_option, describe_error, report, run_with_cluster
from tailrace.cli.group_tables import GroupFacts, member_rows, offset_rows, show_offsets, state_rows
from tailrace.cli.offset_targets import TopicScope, resolve_scopes, topic_scope
from tailrace.cli.reset_offsets import reset_offsets
from tailrace.cli.table import show_table
from tailrace.client.address import Address
from tailrace.client.admin import Admin, GroupListing, GroupState, GroupType
from tailrace.client.admin.group_offsets import PartitionResults
from tailrace.client.cluster import Cluster
from tailrace.client.errors import BrokerError
from tailrace.client.offsets import LATEST, list_offsets
from tailrace.protocol.topic_partition import TopicPartition

_group_names = click.argument("names", nargs=-1, metavar="GROUP...")


@click.group()
def groups() -> None:
    """List and describe consumer groups, reset and delete their offsets."""


groups.add_command(reset_offsets)


@groups.command("list")
@bootstrap_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in GroupState][1:], case_sensitive=False),
    help="List groups in this state only; repeatable.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice([kind.value for kind in GroupType][1:], case_sensitive=False),
    help="List groups of this type only; repeatable.",
)
def list_groups(servers: tuple[Address, ...], states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """List groups with their type, protocol and state."""
    wanted_states = [GroupState.parse(text) for text in states]
    wanted_types = [GroupType.parse(text) for text in types]

    async def work(cluster: Cluster) -> list[GroupListing]:
        return await Admin(cluster).list_groups(states=wanted_states, types=wanted_types)

    rows = [
        (one.group_id, one.group_type, one.protocol_type or "-", one.state) for one in run_with_cluster(servers, work)
    ]
    show_table(["GROUP", "TYPE", "PROTOCOL", "STATE"], rows)


@groups.command()
@bootstrap_option
@_group_names
@click.option("--all", "all_groups", is_flag=True, help="Describe every group.")
@click.option("--members", "what", flag_value="members", help="Show members, and what each reads.")
@click.option("--state", "what", flag_value="state", help="Show state, coordinator and epochs.")
@click.option(
    "--offsets", "what", flag_value="offsets", default=True, help="Show offsets and lag; this is the default."
)
def describe(servers: tuple[Address, ...], names: tuple[str, ...], all_groups: bool, what: str) -> None:
    """Show the offsets and lag of groups, their members, or their state."""
    _need_groups(names, all_groups)

    async def work(cluster: Cluster) -> dict[str, GroupFacts | BrokerError]:
        return await _gather(cluster, await _wanted(cluster, names, all_groups), with_offsets=what == "offsets")

    found = run_with_cluster(servers, work)
    facts = [one for one in found.values() if isinstance(one, GroupFacts)]
    if what == "state":
        columns = ["GROUP", "TYPE", "#COORDINATOR", "ADDRESS", "ASSIGNOR", "STATE", "#MEMBERS", "#EPOCH", "#ASSIGNED"]
        show_table(columns, [row for one in facts for row in state_rows(one)])
    elif what == "members":
        columns = ["GROUP", "MEMBER", "INSTANCE", "HOST", "CLIENT", "#EPOCH", "#PARTITIONS", "ASSIGNED", "TO COME"]
        show_table(columns, [row for one in facts for row in member_rows(one)])
    else:
        show_offsets([row for one in facts for row in offset_rows(one)])
    _fail_for(found)


@groups.command()
@bootstrap_option
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
def delete(servers: tuple[Address, ...], names: tuple[str, ...]) -> None:
    """Delete groups without members, with all their offsets."""
    report(run_with_cluster(servers, lambda cluster: Admin(cluster).delete_groups(names)), done="deleted")


@groups.command()
@bootstrap_option
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic",
    "scopes",
    multiple=True,
    required=True,
    type=topic_scope,
    metavar="TOPIC[:0,1,...]",
    help="A topic, or some of its partitions; repeatable.",
)
def delete_offsets(servers: tuple[Address, ...], name: str, scopes: tuple[TopicScope, ...]) -> None:
    """Delete a group's offsets in topics that no member reads."""

    async def work(cluster: Cluster) -> PartitionResults:
        admin = Admin(cluster)
        return await admin.delete_group_offsets(name, await resolve_scopes(admin, scopes))

    results = run_with_cluster(servers, work)
    report({str(key): error for key, error in sorted(results.items())}, done="deleted")


def _need_groups(names: Sequence[str], all_groups: bool) -> None:
    if bool(names) == all_groups:
        raise click.UsageError("name the groups, or give --all")


async def _wanted(cluster: Cluster, names: Sequence[str], all_groups: bool) -> list[str]:
    if not all_groups:
        return list(dict.fromkeys(names))
    return [one.group_id for one in await Admin(cluster).list_groups() if one.is_consumer_group]


async def _gather(cluster: Cluster, names: Sequence[str], *, with_offsets: bool) -> dict[str, GroupFacts | BrokerError]:
    """Ask for what is known of groups: their description, and with their offsets the ends of the partitions."""
    admin = Admin(cluster)
    if not names:
        return {}
    described = await admin.describe_groups(names)
    there = [name for name, one in described.items() if not isinstance(one, BrokerError)]
    committed = await admin.list_group_offsets(dict.fromkeys(there)) if with_offsets and there else {}
    found: dict[str, GroupFacts | BrokerError] = {}
    for name, description in described.items():
        offsets = committed.get(name, {})
        if isinstance(description, BrokerError):
            found[name] = description
        elif isinstance(offsets, BrokerError):
            found[name] = offsets
        else:
            found[name] = GroupFacts(description, offsets)
    if with_offsets:
        facts = [one for one in found.values() if isinstance(one, GroupFacts)]
        ends = await _ends(cluster, {key for one in facts for key in one.partitions})
        for one in facts:
            one.ends = ends
    return found


async def _ends(cluster: Cluster, partitions: set[TopicPartition]) -> Mapping[TopicPartition, int]:
    """Find the ends of the partitions that have a leader; a deleted topic's have none."""
    if not partitions:
        return {}
    topics = (await Admin(cluster).describe_topics(sorted({key.topic for key in partitions}))).topics
    led = {
        TopicPartition(topic.name, partition.partition)
        for topic in topics.values()
        for partition in topic.partitions.values()
        if partition.leader_id >= 0
    }
    ends = await list_offsets(cluster, dict.fromkeys(sorted(partitions & led), LATEST))
    return {key: end.offset for key, end in ends.items()}


def _fail_for(found: Mapping[str, object]) -> None:
    """Fail for the groups that could not be described, after the others were."""
    failed = [f"{name}: {describe_error(one)}" for name, one in found.items() if isinstance(one, BrokerError)]
    if failed:
        raise click.ClickException("; ".join(failed))
