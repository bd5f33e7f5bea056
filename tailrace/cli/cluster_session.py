"""What the commands that talk to a cluster share: how they find it, how they run, and how they fail.

A command's work is a coroutine that is given the connected `Cluster`. It runs on uvloop; Ctrl-C cancels it and its
connections are closed. What the cluster refuses, and that it cannot be reached, ends the command with one line.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import uvloop
from click.core import ParameterSource

from tailrace.client.address import Address, parse_addresses
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.settings.client_config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from tailrace.settings.config_error import ConfigError

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_SETTINGS = "tailrace.client.settings"

PATIENCE_MS = 20_000
"""How long an operation is tried; a person waits less than a program."""

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name(text: str) -> str:
    """Refuse a topic name that no broker would accept, before asking one; a type for click."""
    if not _TOPIC_NAME.fullmatch(text) or text in (".", ".."):
        raise click.BadParameter(f"{text!r} is no topic name: up to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
    return text


def bootstrap_option(command: Command) -> Command:
    """Add --bootstrap-server, and --command-config for what else a cluster wants of its clients."""
    command = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="TAILRACE_COMMAND_CONFIG",
        expose_value=False,
        callback=_keep_settings,
        help="A properties file with settings of the client: security.protocol, ssl.*, sasl.*, ...",
    )(command)
    return click.option(
        "--bootstrap-server",
        "servers",
        type=_addresses,
        metavar="HOST:PORT,...",
        default="localhost:9092",
        show_default=True,
        envvar="TAILRACE_BOOTSTRAP_SERVER",
        help="Brokers of the cluster; one that answers is enough.",
    )(command)


def _addresses(text: str) -> tuple[Address, ...]:
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _keep_settings(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Read the file and keep its settings for `run_with_cluster`, so that no command has to hand them on."""
    if path is None:
        return
    import javaproperties  # only who gives a file pays for it

    try:
        found = javaproperties.loads(path.read_text(encoding="latin-1"))
    except ValueError as error:
        raise click.BadParameter(f"{path} is no properties file: {error}") from None
    for key in found:
        if not any(key in config.settings for config in (AdminConfig, ProducerConfig, ConsumerConfig)):
            raise click.BadParameter(f"{path}: {key} is no setting of a client")
    context.meta[_SETTINGS] = found


def _config(servers: tuple[Address, ...]) -> AdminConfig:
    context = click.get_current_context(silent=True)
    settings: dict[str, Any] = {}
    if context is not None:
        settings.update(_settings_of_file(context, AdminConfig))
        is_default = context.get_parameter_source("servers") is ParameterSource.DEFAULT
        if settings and is_default and "bootstrap.servers" in settings:
            servers = parse_addresses(settings["bootstrap.servers"])
    settings.pop("bootstrap.servers", None)
    try:
        return AdminConfig(
            {
                "client.id": "tailrace-cli",
                "default.api.timeout.ms": PATIENCE_MS,
                **settings,
                "bootstrap.servers": servers,
            }
        )
    except (ConfigError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--command-config") from None


def _settings_of_file(context: click.Context, config: type[ClientConfig]) -> dict[str, str]:
    found: dict[str, str] = context.meta.get(_SETTINGS, {})
    return {key: text for key, text in found.items() if key in config.settings}


def command_settings(config: type[ClientConfig], options: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """Give a client's settings: what was typed, else what the file says, else the command's own defaults.

    `options` gives, for parameters of the command, the setting that each stands for and its value.
    """
    context = click.get_current_context()
    settings: dict[str, Any] = {}
    typed: dict[str, Any] = {}
    for parameter, (key, value) in options.items():
        is_default = context.get_parameter_source(parameter) is ParameterSource.DEFAULT
        (settings if is_default else typed)[key] = value
    settings.update(_settings_of_file(context, config))
    settings.pop("bootstrap.servers", None)
    return settings | typed


def run_with_cluster(servers: tuple[Address, ...], work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Connect, do the work, disconnect; give what the work gives."""

    config = _config(servers)

    async def session() -> T:
        async with _cluster(config) as cluster:
            await cluster.any_connection()  # a cluster that is not there is said at once, not after retries
            return await work(cluster)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(session())
    except (ClientError, ApiError) as error:
        raise click.ClickException(describe_error(error)) from None


def _cluster(config: AdminConfig) -> Cluster:
    try:
        return Cluster(config)
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint="--command-config") from None


def describe_error(error: Exception) -> str:
    """Say what went wrong for a person: the message, with the code where it tells more."""
    if isinstance(error, ApiError):
        return str(error) if error.message else error.code.name
    return str(error)


def report(results: Mapping[str, ApiError | None], *, done: str, ignored: ErrorCode | None = None) -> None:
    """Say of each name what was done; fail for those that were refused, except for the reason to ignore."""
    refused: list[str] = []
    for name, error in results.items():
        if error is None:
            click.echo(f"{done} {name}")
        elif error.code is not ignored:
            refused.append(f"{name}: {describe_error(error)}")
    if refused:
        raise click.ClickException("; ".join(refused))


def parse_pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Read KEY=VALUE options."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        pairs[key.strip()] = value
    return pairs
