"""Tables: drawn for a person, lines of tab-separated values for a program that reads what we print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table to stdout; columns whose name begins with `#` hold numbers."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(str(cell) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        is_number = column.startswith("#")
        table.add_column(column.lstrip("#"), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)


def number_list(numbers: Iterable[int]) -> str:
    """Write numbers as `1,2,3`, or `-` for none."""
    return ",".join(map(str, numbers)) or "-"
