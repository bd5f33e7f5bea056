"""Messages as Apache Kafka 4.1's Java library wrote them: every request, response and header at every version."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tailrace.protocol.api_keys import APIS, find_message_class
from tailrace.protocol.schema import Message

GOLDEN = Path(__file__).parent.parent / "golden" / "messages.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Vector:
    type: str
    version: int
    form: dict[str, Any]
    body: bytes

    @property
    def message_class(self) -> type[Message]:
        return find_message_class(self.type)


@cache
def load_vectors() -> dict[str, list[Vector]]:
    by_type: dict[str, list[Vector]] = {}
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            vector = Vector(row["type"], row["version"], row["json"], bytes.fromhex(row["hex"]))
            by_type.setdefault(vector.type, []).append(vector)
    return by_type


def all_vectors() -> Iterator[Vector]:
    for vectors in load_vectors().values():
        yield from vectors


def all_type_names() -> list[str]:
    names = [api.name + kind for api in APIS.values() for kind in ("Request", "Response")]
    return [*names, "RequestHeader", "ResponseHeader"]
