"""`tailrace serve`: runs a broker until it is told to stop.

Gathers the settings from file, environment and flags, starts `BrokerServer`, prints one line when it answers, and stops
it on SIGTERM or Ctrl-C, so that requests in flight get their answers. What a broker is made of is `broker.server`'s
business. The start is to take a third of a second, so what costs time to import is imported in the functions.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.clock import SystemClock, seconds_since_process_start

if TYPE_CHECKING:
    from tailrace.broker.server import BrokerServer
    from tailrace.settings.sources import LoadedConfig

DATA_DIRECTORY = "tailrace-data"
GC_THRESHOLDS = (20_000, 20, 20)
"""A request of a thousand partitions makes thousands of objects that all live until its answer, and Python's own 700
had the collector look at them again and again: 0.8 of 5.8 ms of such a commit. Nearly nothing here is in cycles."""


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of settings, such as Kafka's server.properties.",
)
@click.option("--data-dir", help=f"Where the logs lie [log.dirs of the file, else ./{DATA_DIRECTORY}].")
@click.option("--port", type=click.IntRange(0, 65535), help="The port for clients; 0 takes a free one [9092].")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65535),
    help="The port for Prometheus; 0 takes a free one, -1 turns it off [9308].",
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting; may be given repeatedly.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="How much is logged to stderr.",
)
def serve(
    *,
    file: Path | None,
    data_dir: str | None,
    port: int | None,
    metrics_port: int | None,
    assignments: tuple[str, ...],
    log_level: str,
) -> int:
    """Run a broker.

    Every option may be left out. Settings are looked up in the flags, then in the environment (KAFKA_LOG_RETENTION_MS
    is log.retention.ms), then in the file; the rest have Kafka's defaults.
    """
    started_at = SystemClock().monotonic() - seconds_since_process_start()
    loaded = _load(file=file, data_dir=data_dir, port=port, metrics_port=metrics_port, assignments=assignments)
    _start_logging(log_level)
    for warning in loaded.warnings:
        logging.getLogger("tailrace").warning("%s", warning)
    return _run(loaded, started_at)


def _load(
    *,
    file: Path | None,
    data_dir: str | None,
    port: int | None,
    metrics_port: int | None,
    assignments: tuple[str, ...],
) -> LoadedConfig:
    """Read the settings of all sources; what is wrong with one ends the command with one line."""
    from tailrace.settings.config_error import ConfigError
    from tailrace.settings.sources import load_broker_config, parse_assignment

    try:
        flags = [(*parse_assignment(text), "--set") for text in assignments]
        if data_dir is not None:
            flags.append(("log.dirs", data_dir, "--data-dir"))
        if metrics_port is not None:
            flags.append(("tailrace.metrics.port", str(metrics_port), "--metrics-port"))
        loaded = load_broker_config(file=file, environment=os.environ, flags=flags)
        if port is not None:
            flags += [(key, text, "--port") for key, text in with_port(loaded, port)]
        if not {"log.dirs", "log.dir"} & loaded.config.texts.keys():
            flags.append(("log.dirs", str(Path(DATA_DIRECTORY).absolute()), "default"))
        return load_broker_config(file=file, environment=os.environ, flags=flags)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't read {error.filename}: {error.strerror}") from None


def with_port(loaded: LoadedConfig, port: int) -> list[tuple[str, str]]:
    """Give the settings that move the first listener to another port, and the same port where it is advertised.

    Another port that is advertised is that of a proxy before the broker, and stays. A port that the system chooses
    can't be advertised before it is known: the broker then advertises what it has bound.
    """
    from tailrace.settings.listeners import Endpoint

    config = loaded.config
    moved = config.listener_endpoints[0]

    def replaced(endpoints: tuple[Endpoint, ...]) -> str:
        is_moved = {moved.name: moved.port}
        return ",".join(str(e._replace(port=port) if is_moved.get(e.name) == e.port else e) for e in endpoints)

    settings = [("listeners", replaced(config.listener_endpoints))]
    if config.advertised_listeners is not None:
        settings.append(("advertised.listeners", replaced(config.advertised_endpoints)))
    return settings


def _start_logging(level: str) -> None:
    """Log to stderr; stdout is for the line that says the broker is ready."""
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def _run(loaded: LoadedConfig, started_at: float) -> int:
    import uvloop

    _allow_many_files()
    return uvloop.run(_serve(loaded, started_at))


def _allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one: an active segment holds two descriptors, a connection one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(loaded: LoadedConfig, started_at: float) -> int:
    """Start the broker, say so, and stop it when a signal asks; the exit code tells which signal it was."""
    from tailrace.broker.server import START_ERRORS, BrokerServer

    clock = SystemClock()
    asked = _stop_signal()
    server = BrokerServer(loaded.config, clock)
    starting = asyncio.ensure_future(server.start())
    await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
    if not asked.done():
        try:
            starting.result()
        except START_ERRORS as error:
            logging.getLogger(__name__).debug("the start failed", exc_info=error)
            raise click.ClickException(f"the broker can't start: {error}") from error
        # What a start leaves behind lives as long as the broker: the collector need not look at it again and again.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        print(ready_line(server, clock.monotonic() - started_at), flush=True)
    exit_code = await asked
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await server.stop()
    return exit_code


def _stop_signal() -> asyncio.Future[int]:
    """Give a future that SIGTERM and Ctrl-C resolve, to the exit code; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[int] = loop.create_future()

    def ask(exit_code: int) -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)
        asked.set_result(exit_code)

    loop.add_signal_handler(signal.SIGTERM, ask, 0)
    loop.add_signal_handler(signal.SIGINT, ask, 130)
    return asked


def ready_line(server: BrokerServer, seconds: float) -> str:
    """Say in one line where the broker listens, where its metrics and its data are, and how long the start took."""
    config = server.config
    listeners = ", ".join(str(e._replace(port=server.ports[e.name])) for e in config.listener_endpoints)
    metrics = "no metrics"
    if server.metrics_address is not None:
        host, port = server.metrics_address
        metrics = f"metrics on http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    # What clients are told is where they go after the first answer: the usual cause of "it connects and then hangs".
    told = ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in server.endpoints)
    data = ", ".join(config.log_directories)
    details = f"clients are told {told}; {metrics}; data in {data}; started in {seconds:.2f} s"
    return f"Tailrace listens on {listeners} ({details})"
