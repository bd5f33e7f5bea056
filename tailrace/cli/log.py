"""`tailrace log`: looks into the files of a log directory, without a broker and without changing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.group()
def log() -> None:
    """Look into the files of a log directory."""


@log.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...", type=click.Path(exists=True, path_type=Path))
@click.option("--records", "with_records", is_flag=True, help="Show every record, decompressed.")
@click.option("--values", "with_values", is_flag=True, help="Show keys, values and headers, too; implies --records.")
@click.option("--check", "only_check", is_flag=True, help="Show only what is wrong, and a count of what was read.")
def dump(paths: tuple[Path, ...], with_records: bool, with_values: bool, only_check: bool) -> int:
    """Show the batches, indexes and snapshots of files or of a whole partition, and check them.

    Every CRC is verified, and every index against the batches of its segment. The exit code is 1 where anything is
    wrong. Apache Kafka's files are read as well as Tailrace's.
    """
    from tailrace.cli.log_dump import Dump, DumpFailed

    output = Dump(
        write=(lambda line: None) if only_check else sys.stdout.write,
        with_records=with_records or with_values or only_check,
        with_values=with_values,
    )
    try:
        for path in paths:
            output.dump(path)
    except DumpFailed as error:
        raise click.ClickException(str(error)) from None
    for problem in output.problems:
        click.echo(f"problem: {problem}", err=True)
    wrong = f"{len(output.problems)} problems" if output.problems else "nothing wrong"
    summary = f"{output.files_count} files, {output.batches_count} batches, {output.records_count} records: {wrong}"
    click.echo(summary, err=True)
    return 1 if output.problems else 0
