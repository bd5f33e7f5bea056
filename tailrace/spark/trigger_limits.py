"""How much a micro-batch takes: at most so many offsets, and at least so many unless that takes too long.

Pure but for `BatchDelay`, which remembers when the last batch was. At most `maxOffsetsPerTrigger` offsets are divided
among the partitions in proportion to what waits in each, so that no partition starves; with `minOffsetsPerTrigger` a
batch is put off until enough has come or `maxTriggerDelay` has passed. Figures are those of the official connector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, floor
from typing import Final

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.spark.offset_json import Offsets


def limit_offsets(limit: int, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """Say where a batch of about `limit` offsets ends; `start` has every partition of `latest`."""
    sizes = {key: end - start[key] for key, end in latest.items() if end > start[key]}
    total = sum(sizes.values())
    ends = dict(latest)
    for key, size in sizes.items():
        share = limit * (size / total)
        ends[key] = min(latest[key], start[key] + (ceil(share) if share < 1 else floor(share)))
    return ends


class BatchDelay:
    """Puts a batch off until `offsets_min` offsets wait, or `delay_max_ms` have passed since the last one."""

    def __init__(self, offsets_min: int, delay_max_ms: int) -> None:
        self._offsets_min = offsets_min
        self._delay_max_ms = delay_max_ms
        self._last_ms = 0.0

    def is_due(self, now_ms: float, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> bool:
        """Whether a batch is to be made now; then the delay begins anew."""
        waiting = sum(max(end - start.get(key, 0), 0) for key, end in latest.items())
        if waiting < self._offsets_min and now_ms - self._last_ms < self._delay_max_ms:
            return False
        self._last_ms = now_ms
        return True


_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def parse_duration_ms(text: str) -> int:
    """Read a duration as Spark writes them: `15m`, `10s`, `500ms`, or a number of milliseconds."""
    found = re.fullmatch(r"\s*(\d+)\s*(us|ms|s|min|m|h|d|)\s*", text.lower())
    if found is None:
        raise ValueError(f"'{text}' is no duration such as 500ms, 10s or 15m")
    if found[2] == "us":
        return int(found[1]) // 1_000
    return int(found[1]) * _UNITS_MS[found[2]]
