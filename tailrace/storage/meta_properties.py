"""The `meta.properties` file of a data directory: whose it is.

    node.id=1
    directory.id=3uALnyRySYSxu89u3tSh0w
    version=1
    cluster.id=MkU3OEVBNTcwNTJENDM2Qg

A Java properties file, version 1 as Kafka writes it with KRaft; version 0 (`broker.id`) is read too. A broker refuses a
directory of another cluster or node: the partitions in it are not its own. Comparing is left to the log manager.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tailrace.protocol.uuid import parse_uuid, uuid_text
from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile

FILE_NAME = "meta.properties"
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Cluster, broker and directory; `directory_id` tells apart the data directories of one broker (KIP-858)."""

    cluster_id: str | None
    node_id: int
    directory_id: bytes | None = None


def read_meta_properties(disk: Disk, directory: Path) -> MetaProperties | None:
    """Read the file; None where there is none, `CorruptFile` where it is not to be understood."""
    path = directory / FILE_NAME
    if not disk.exists(path):
        return None
    try:
        values = _parse(disk.read_file(path).decode("latin-1"))
        version = values["version"]
        node_id = int(values["node.id" if version == "1" else "broker.id"])
        directory_id = values.get("directory.id")
        meta = MetaProperties(
            cluster_id=values["cluster.id"] if version == "1" else values.get("cluster.id"),
            node_id=node_id,
            directory_id=None if directory_id is None else parse_uuid(directory_id),
        )
    except KeyError as error:
        raise CorruptFile(path, f"has no {error.args[0]}") from error
    except ValueError as error:
        raise CorruptFile(path, str(error)) from error
    if version not in ("0", "1"):
        raise CorruptFile(path, f"unknown version {version[:40]!r}, 0 or 1 expected")
    return meta


def write_meta_properties(disk: Disk, directory: Path, meta: MetaProperties, *, sync: bool = True) -> None:
    """Replace the file by version 1, in the order Kafka writes it; its date is a comment and is left out."""
    values = {"node.id": str(meta.node_id)}
    if meta.directory_id is not None:
        values["directory.id"] = uuid_text(meta.directory_id)
    values["version"] = "1"
    if meta.cluster_id is not None:
        values["cluster.id"] = meta.cluster_id
    text = _format(values)
    disk.replace_file(directory / FILE_NAME, text.encode("latin-1"), sync=sync)


def _parse(text: str) -> dict[str, str]:
    """Read the lines as Kafka writes them; what has escapes or continued lines goes to a full reader.

    The full reader takes a tenth of a start to import, and a cluster id is almost always plain base64.
    """
    if "\\" in text:
        import javaproperties

        return javaproperties.loads(text)
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _format(values: dict[str, str]) -> str:
    if all(_PLAIN.fullmatch(value) for value in values.values()):
        return "".join(f"{key}={value}\n" for key, value in values.items())
    import javaproperties

    return javaproperties.dumps(values, timestamp=False)
