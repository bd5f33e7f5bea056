"""A real `tailrace serve` in a process of its own, for tests with other people's clients and for kill -9.

`BrokerProcess` keeps its port and its data directory from one start to the next, so that a client finds the broker
again after it was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tailrace.testing.apache_kafka import wait_until_answering
from tailrace.testing.ports import free_port

START_DEADLINE_S = 20.0
STOP_DEADLINE_S = 20.0


class BrokerProcess:
    """One Tailrace broker on loopback; a context manager that ends it.

    `settings` go to the command as `--set key=value`. What it prints is in `folder/broker.log`.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.log = folder / "broker.log"
        self.settings = dict(settings or {})
        self.port = 0
        self.metrics_port = 0
        self.start_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        """Where Prometheus scrapes."""
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the broker and wait until it answers; RuntimeError with its log where it does not."""
        assert not self.is_running, "the broker is running already"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        self.metrics_port = self.metrics_port or free_port()
        command = [sys.executable, "-m", "tailrace.cli.main", "serve"]
        command += ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        command += ["--metrics-port", str(self.metrics_port)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        started = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until_answering(self.port, self._process, self.log, START_DEADLINE_S)
        self.start_seconds = time.monotonic() - started

    def stop(self) -> int:
        """Stop the broker cleanly, as SIGTERM does, and give its exit status (-9 where it had to be killed)."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            status = self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._process = None
        return status

    def kill(self) -> None:
        """End the broker with -9, as a power switch would end its process."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
