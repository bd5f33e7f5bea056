"""The partition directory that Apache Kafka 4.1 wrote, and what Kafka answers about it."""

from __future__ import annotations

import shutil
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-log"
REFERENCE_LOG = GOLDEN / "reference-log-0"
REFERENCE_ANSWERS = GOLDEN / "reference-log.json.gz"
BASE_OFFSETS = (0, 7092, 14091, 21030, 27888, 30220)
SEGMENT_INDEX_BYTES = 2048


def copy_reference_log(target: Path) -> Path:
    """Copy the directory, since opening a log may change it; give the copy's path."""
    copied = Path(shutil.copytree(REFERENCE_LOG, target / REFERENCE_LOG.name))
    for path in (copied, *copied.iterdir()):
        path.chmod(path.stat().st_mode | 0o600 | (0o100 if path.is_dir() else 0))
    return copied
