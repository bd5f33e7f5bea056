"""The jars of Spark's own Kafka connector, to compare with: from Maven Central once, then from the user's cache folder.

The versions run together on Spark 4.2 and 4.3. Of later ones Maven Central does not have every part.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

_ARTIFACTS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)


def jars() -> list[Path]:
    """Give the jars, fetching them where they are not there yet; none where that cannot be done."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    folder = cache / "-".join((_ARTIFACTS[0][1], _ARTIFACTS[0][2]))
    if not folder.is_dir():
        fetching = folder.with_name(f"{folder.name}.{os.getpid()}")
        fetching.mkdir(parents=True)
        try:
            _fetch(fetching)
            fetching.rename(folder)
        except (OSError, subprocess.SubprocessError):
            shutil.rmtree(fetching, ignore_errors=True)
            return []
    return sorted(folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    anything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"<exclusions>{anything}</exclusions></dependency>"
        for group, artifact, version in _ARTIFACTS
    )
    pom = folder / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tailrace</groupId><artifactId>spark-kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
