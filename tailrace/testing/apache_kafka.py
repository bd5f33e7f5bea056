"""Apache Kafka 4.1 itself, beside Tailrace: what tests and benchmarks compare with.

The jars come from Maven Central once and are kept in the user's cache folder. `ApacheKafka` runs one broker in KRaft's
combined mode on free loopback ports with a data directory of its own. Where Java or Maven is missing, `unavailable`
says so, and a test skips with that reason.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tailrace.protocol.uuid import random_uuid, uuid_text
from tailrace.testing.ports import free_port

VERSION = "4.1.0"
START_DEADLINE_S = 60.0
_HEAP = "-Xmx1g"

_BROKER = ("kafka_2.13", "kafka-tools")

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tailrace</groupId><artifactId>apache-kafka</artifactId><version>{version}</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
    </dependency>"""


def unavailable(*artifacts: str) -> str | None:
    """Say why Apache Kafka, and what else of it is asked for, cannot be run here, or None where it can."""
    if shutil.which("java") is None:
        return "Java is not installed"
    wanted = [_BROKER, *((artifact,) for artifact in artifacts)]
    if all(_jars_folder(names).is_dir() for names in wanted) or shutil.which("mvn") is not None:
        return None
    return "Maven is not installed and the jars were not fetched before"


def classpath(*artifacts: str) -> str:
    """Fetch the jars where they are not there yet, and give them as a Java class path.

    The broker and its tools are always among them; `artifacts` names more of Apache Kafka, such as `kafka-streams`.
    Raises subprocess.CalledProcessError where Maven cannot fetch them.
    """
    wanted = [_BROKER, *((artifact,) for artifact in artifacts)]
    return os.pathsep.join(f"{_fetched(names)}/*" for names in wanted)


def _fetched(artifacts: tuple[str, ...]) -> Path:
    jars = _jars_folder(artifacts)
    if not jars.is_dir():
        fetching = jars.with_name(f"{jars.name}.{os.getpid()}")
        fetching.mkdir(parents=True, exist_ok=True)
        pom = fetching / "pom.xml"
        dependencies = "\n".join(_DEPENDENCY.format(artifact=name, version=VERSION) for name in artifacts)
        pom.write_text(_POM.format(version=VERSION, dependencies=dependencies))
        goal = f"-DoutputDirectory={fetching}"
        subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), "dependency:copy-dependencies", goal], check=True
        )
        try:
            fetching.rename(jars)
        except OSError:
            shutil.rmtree(fetching)  # another process fetched them meanwhile
    return jars


def run_tool(main_class: str, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own tools, such as `kafka.tools.DumpLogSegments`, and give what it printed."""
    command = ["java", "-cp", classpath(), main_class, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


class ApacheKafka:
    """One Apache Kafka broker on loopback; a context manager that ends it.

    `settings` are lines of server.properties beyond those that say where to listen; `features` are levels that a new
    cluster begins with in place of the latest. `listeners` are further ones by name with their security protocols, as
    `{"SECURE": "SASL_SSL"}`; they advertise localhost, and `ports` says where each is. `data_dir` outlives the broker,
    so that another one can be started on what it wrote.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.settings = dict(settings or {})
        self.features = dict(features or {})
        self.listeners = dict(listeners or {})
        self.ports: dict[str, int] = {}
        self.port = 0
        self.start_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Format the data directory where that is needed, start the broker and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.port:
            self.port = free_port()
            self.ports = {name: free_port() for name in self.listeners}
        properties = self._write_properties()
        if not (self.data_dir / "meta.properties").exists():
            cluster_id = uuid_text(random_uuid())
            self._format(properties, cluster_id)
        started = time.monotonic()
        with (self.folder / "broker.log").open("ab") as log:
            command = ["java", _HEAP, "-cp", classpath(), "kafka.Kafka", str(properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until_answering(self.port, self._process, self.folder / "broker.log", START_DEADLINE_S)
        self.start_seconds = time.monotonic() - started

    def stop(self) -> None:
        """Stop the broker cleanly, as SIGTERM does."""
        self._end(kill=False)

    def kill(self) -> None:
        """End the broker with -9."""
        self._end(kill=True)

    def __enter__(self) -> ApacheKafka:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, *, kill: bool) -> None:
        if self._process is None:
            return
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _write_properties(self) -> Path:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._further_listeners(controller_port),
            **self.settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _further_listeners(self, controller_port: int) -> dict[str, str]:
        if not self.listeners:
            return {}
        plain, controller = f"PLAINTEXT://127.0.0.1:{self.port}", f"CONTROLLER://127.0.0.1:{controller_port}"
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self.listeners}
        return {
            "listeners": ",".join([plain, controller, *(f"{n}://127.0.0.1:{p}" for n, p in self.ports.items())]),
            "advertised.listeners": ",".join([plain, *(f"{n}://localhost:{p}" for n, p in self.ports.items())]),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def _format(self, properties: Path, cluster_id: str) -> None:
        arguments = ["format", "-t", cluster_id, "-c", str(properties)]
        for name, level in self.features.items():
            arguments += ["--feature", f"{name}={level}"]
        done = run_tool("kafka.tools.StorageTool", *arguments)
        if done.returncode != 0:
            raise RuntimeError(f"Apache Kafka could not format {self.data_dir}: {done.stdout}{done.stderr}")


def wait_until_answering(port: int, process: subprocess.Popen[bytes], log: Path, deadline_s: float) -> None:
    """Ask for ApiVersions until an answer comes; raise RuntimeError where the process ends or the deadline passes."""
    deadline = time.monotonic() + deadline_s
    request = bytes.fromhex("0000000a 0012 0000 00000001 0000".replace(" ", ""))
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with {process.returncode}: {log.read_text(errors='replace')[-4000:]}")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(request)
                if len(connection.recv(8)) > 0:
                    return
        except OSError:
            process_ended = process.poll() is not None
            if not process_ended:
                time.sleep(0.005)
    raise RuntimeError(f"no answer on port {port} in {deadline_s} s: {log.read_text(errors='replace')[-4000:]}")


def _jars_folder(artifacts: tuple[str, ...]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = "apache-kafka" if artifacts == _BROKER else "-".join(artifacts)
    return cache / "tailrace" / f"{name}-{VERSION}"
