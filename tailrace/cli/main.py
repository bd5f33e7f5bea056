"""The `tailrace` command: finds the sub-command, runs it, and turns whatever goes wrong into one clear line.

Each sub-command is a module of this package with a click command of the same name (`cli/serve.py` has `serve`),
imported when it is called: starting a broker must not wait for what draws tables. Exit codes: 0 done, 1 failed,
2 called wrongly, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

COMMANDS = {
    "serve": "Run a broker.",
    "topics": "List, create, describe and delete topics.",
    "produce": "Write records to a topic.",
    "consume": "Read records from a topic.",
    "groups": "List and describe consumer groups, reset and delete their offsets.",
    "transactions": "List and describe transactions, find and end those that hang.",
    "configs": "Show and change the configuration of topics and brokers.",
    "log": "Look into the files of a log directory.",
    "wire": "Decode and encode messages of Kafka's protocol.",
}
"""The sub-commands and what each is for, so that --help needs none of them."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, in the order of a first day with Tailrace."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"tailrace.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that nearly fits is suggested."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"there is no command {args[0]}{f'; is {near[0]} meant?' if near else ''}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"tailrace {version('tailrace')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def tailrace() -> None:
    """Run a Kafka broker, and work with one."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    try:
        result = tailrace.main(args=arguments, prog_name="tailrace", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "tailrace"
        return _fail(f"{path}: {_one_line(error.format_message())} (try {path} --help)", 2)
    except click.ClickException as error:
        return _fail(f"tailrace: {_one_line(error.format_message())}", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone (`tailrace consume | head`): nothing is wrong. Python would complain once
        # more when it flushes stdout at exit, so that goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _fail(message: str, exit_code: int) -> int:
    print(message, file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
