"""`tailrace configs`: show and change the settings of topics and brokers."""

from __future__ import annotations

import click

from tailrace.cli.cluster_session import bootstrap_option, parse_pairs, run_with_cluster
from tailrace.cli.table import show_table
from tailrace.client.address import Address
from tailrace.client.admin import Admin, AlterOperation, ConfigChange, ConfigEntry, ConfigSource, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.protocol.errors import ApiError

_KINDS = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}
_kind = click.argument("kind", type=click.Choice(list(_KINDS)))

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker, changed while running",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, changed while running",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's settings at its start",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.GROUP_CONFIG: "group",
}


@click.group()
def configs() -> None:
    """Show and change the configuration of topics and brokers."""


@configs.command()
@bootstrap_option
@_kind
@click.argument("name")
@click.option("--all", "show_all", is_flag=True, help="Show settings that have their default, too.")
@click.option("--key", "keys", multiple=True, help="Show this setting only; may be given repeatedly.")
@click.option("--documentation", is_flag=True, help="Show what each setting is for.")
def describe(
    servers: tuple[Address, ...],
    kind: str,
    name: str,
    show_all: bool,
    keys: tuple[str, ...],
    documentation: bool,
) -> None:
    """Show the settings of a topic (by its name) or a broker (by its id) that are not at their default."""

    async def work(cluster: Cluster) -> list[ConfigEntry]:
        found = await Admin(cluster).describe_configs(
            _KINDS[kind], [name], keys=keys or None, with_documentation=documentation
        )
        entries = found.get(name, [])
        if isinstance(entries, ApiError):
            raise entries
        return sorted(entries, key=lambda entry: entry.name)

    entries = run_with_cluster(servers, work)
    unknown = set(keys) - {entry.name for entry in entries}
    if unknown:
        raise click.ClickException(f"{kind} {name} has no setting {', '.join(sorted(unknown))}")
    shown = [entry for entry in entries if show_all or keys or not entry.is_default]
    columns = ["SETTING", "VALUE", "FROM", *(["WHAT IT IS FOR"] if documentation else [])]
    show_table(columns, [_row(entry, documentation) for entry in shown])


@configs.command()
@bootstrap_option
@_kind
@click.argument("name")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Set a value.")
@click.option("--delete", "deleted", multiple=True, metavar="KEY", help="Give a setting back its default.")
@click.option("--append", "appended", multiple=True, metavar="KEY=VALUE", help="Add values to a list.")
@click.option("--subtract", "subtracted", multiple=True, metavar="KEY=VALUE", help="Take values out of a list.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the change would be accepted.")
def alter(
    servers: tuple[Address, ...],
    kind: str,
    name: str,
    assignments: tuple[str, ...],
    deleted: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change settings of a topic or a broker; the others stay as they are."""
    changes = [ConfigChange(key, None, AlterOperation.DELETE) for key in deleted]
    for texts, option, operation in (
        (assignments, "--set", AlterOperation.SET),
        (appended, "--append", AlterOperation.APPEND),
        (subtracted, "--subtract", AlterOperation.SUBTRACT),
    ):
        changes += [ConfigChange(key, value, operation) for key, value in parse_pairs(texts, option).items()]
    if not changes:
        raise click.UsageError("nothing to alter: give --set, --delete, --append or --subtract")
    run_with_cluster(
        servers, lambda cluster: Admin(cluster).alter_configs(_KINDS[kind], name, changes, validate_only=dry_run)
    )
    click.echo(f"{'would alter' if dry_run else 'altered'} {kind} {name}")


def _row(entry: ConfigEntry, documentation: bool) -> list[str]:
    value = "(hidden)" if entry.is_sensitive else "" if entry.value is None else entry.value
    row = [entry.name, value, _SOURCES.get(entry.source, entry.source.name.lower())]
    return [*row, entry.documentation or ""] if documentation else row
