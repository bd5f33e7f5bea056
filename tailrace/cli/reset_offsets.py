"""`tailrace groups reset-offsets`: moves the committed offsets of groups that have no members.

What would be done is shown; --execute does it. Every form that kafka-consumer-groups.sh knows is here under the same
name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tailrace.cli.cluster_session import bootstrap_option, describe_error, run_with_cluster
from tailrace.cli.offset_plan import Move, Plan, Rule, csv_lines, fit_plan, make_plan, read_plans
from tailrace.cli.offset_targets import TopicScope, duration_ms, resolve_scopes, timestamp_ms, topic_scope
from tailrace.cli.table import show_table
from tailrace.client.address import Address
from tailrace.client.admin import Admin, GroupOffset, GroupState
from tailrace.client.cluster import Cluster
from tailrace.client.errors import BrokerError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition

Command = TypeVar("Command", bound=Callable[..., Any])
Committed = Mapping[TopicPartition, GroupOffset]

_FORMS = (
    ("--to-earliest", Rule.EARLIEST, None, "To the first record that is there."),
    ("--to-latest", Rule.LATEST, None, "To the end."),
    ("--to-current", Rule.CURRENT, None, "Where they are; to the end where nothing was committed."),
    ("--to-offset", Rule.OFFSET, click.IntRange(0), "To this offset."),
    ("--shift-by", Rule.SHIFT, int, "By so many, forwards or (negative) backwards."),
    ("--by-duration", Rule.TIMESTAMP, duration_ms, "To the time so long ago, as PnDTnHnMnS."),
    ("--to-datetime", Rule.TIMESTAMP, timestamp_ms, "To this time, as 2026-11-21T08:00:00.000; UTC unless it says."),
)


def _form_options(command: Command) -> Command:
    """Add one option a form."""
    for option, _, kind, text in reversed(_FORMS):
        if kind is None:
            command = click.option(option, is_flag=True, default=None, help=text)(command)
        else:
            command = click.option(option, type=kind, help=text)(command)
    return command


@click.command("reset-offsets")
@bootstrap_option
@click.argument("names", nargs=-1, metavar="GROUP...")
@click.option("--all", "all_groups", is_flag=True, help="Every group.")
@click.option(
    "--topic",
    "scopes",
    multiple=True,
    type=topic_scope,
    metavar="TOPIC[:0,1,...]",
    help="A topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All topics for which the group has committed offsets.")
@_form_options
@click.option(
    "--from-file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="To what a file says, as --export writes it: topic,partition,offset or group,topic,partition,offset.",
)
@click.option("--execute/--dry-run", default=False, help="Do it, or only show what would be done [--dry-run].")
@click.option("--export", is_flag=True, help="Print the plan as CSV for --from-file.")
def reset_offsets(
    servers: tuple[Address, ...],
    names: tuple[str, ...],
    all_groups: bool,
    scopes: tuple[TopicScope, ...],
    all_topics: bool,
    file: Path | None,
    execute: bool,
    export: bool,
    **forms: int | bool | None,
) -> None:
    """Move the offsets of groups that have no members; shows what would be done, unless --execute is given."""
    if bool(names) == all_groups:
        raise click.UsageError("name the groups, or give --all")
    given = [one for one in _FORMS if forms[one[0][2:].replace("-", "_")] is not None]
    if len(given) + (file is not None) != 1:
        raise click.UsageError(f"give one of {', '.join(one[0] for one in _FORMS)} and --from-file")
    if file is None and bool(scopes) == all_topics:
        raise click.UsageError("give --topic, or --all-topics")
    if file is not None and (scopes or all_topics):
        raise click.UsageError("a file says which partitions it is for: leave --topic and --all-topics out")

    async def work(cluster: Cluster) -> tuple[dict[str, Plan], dict[str, Committed], dict[str, Exception]]:
        admin = Admin(cluster)
        groups = list(dict.fromkeys(names))
        if all_groups:
            groups = [one.group_id for one in await admin.list_groups() if one.is_consumer_group]
        failures = await _with_members(admin, groups)
        idle = [group for group in groups if group not in failures]
        committed = await _committed(admin, idle, failures)
        plans: dict[str, Plan]
        if file is not None:
            with file.open(newline="") as lines:
                plans = read_plans(lines, groups)
            plans = {group: await fit_plan(cluster, plans[group]) for group in committed if plans[group]}
        else:
            move = _move(cluster, given[0], forms)
            chosen = await resolve_scopes(admin, scopes) if scopes else None
            plans = {
                group: await make_plan(cluster, move, sorted(chosen or committed[group]), committed[group])
                for group in committed
            }
        if execute:
            await _execute(admin, plans, failures)
        return plans, committed, failures

    plans, committed, failures = run_with_cluster(servers, work)
    _show(plans, committed, export=export)
    if not execute and not export and sys.stdout.isatty():
        click.echo("Nothing was changed; --execute does it.", err=True)
    if failures:
        raise click.ClickException("; ".join(f"{what}: {describe_error(error)}" for what, error in failures.items()))


def _move(cluster: Cluster, form: tuple[str, Rule, Any, str], given: Mapping[str, int | bool | None]) -> Move:
    option, rule, _, _ = form
    number = int(given[option[2:].replace("-", "_")] or 0)
    return Move(rule, cluster.clock.time_ms() - number if option == "--by-duration" else number)


async def _with_members(admin: Admin, groups: Sequence[str]) -> dict[str, Exception]:
    """Say which groups cannot be reset because they have members; one that is not there yet can."""
    failures: dict[str, Exception] = {}
    for group, described in (await admin.describe_groups(groups)).items():
        if isinstance(described, BrokerError):
            if described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                failures[group] = described
        elif described.state not in (GroupState.EMPTY, GroupState.DEAD):
            reason = f"the group is {described.state} and commits its own offsets; stop its members first"
            failures[group] = click.ClickException(reason)
    return failures


async def _committed(admin: Admin, groups: Sequence[str], failures: dict[str, Exception]) -> dict[str, Committed]:
    committed: dict[str, Committed] = {}
    if groups:
        for group, offsets in (await admin.list_group_offsets(dict.fromkeys(groups))).items():
            if isinstance(offsets, BrokerError):
                failures[group] = offsets
            else:
                committed[group] = offsets
    return committed


async def _execute(admin: Admin, plans: Mapping[str, Plan], failures: dict[str, Exception]) -> None:
    for group, targets in plans.items():
        if not targets:
            continue
        results = await admin.alter_group_offsets(group, {key: GroupOffset(offset) for key, offset in targets.items()})
        for key, error in results.items():
            if error is not None:
                failures[f"{group} {key}"] = error


def _show(plans: Mapping[str, Plan], committed: Mapping[str, Committed], *, export: bool) -> None:
    if export:
        for line in csv_lines(plans):
            click.echo(line)
        return
    rows = [
        (group, key.topic, key.partition, now.offset if (now := committed[group].get(key)) else "-", offset)
        for group, targets in plans.items()
        for key, offset in sorted(targets.items())
    ]
    show_table(["GROUP", "TOPIC", "#PARTITION", "#CURRENT", "#NEW"], rows)
