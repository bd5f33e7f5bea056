"""The `.kafka_cleanshutdown` file: the broker stopped in order, so no log of this directory needs recovery.

It is JSON, `{"version":0,"brokerEpoch":17}`, with the epoch of the broker's last registration (KIP-966), -1 where it
had none. Kafka before 3.7 left it empty. It is removed as soon as it has been seen: a crash from then on is a crash.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from tailrace.storage.disk import Disk

FILE_NAME = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1
_log = logging.getLogger(__name__)


def write_clean_shutdown(disk: Disk, directory: Path, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Leave the marker. Everything else must be on disk before."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace_file(directory / FILE_NAME, text.encode("ascii"))


def take_clean_shutdown(disk: Disk, directory: Path) -> int | None:
    """Remove the marker and give the broker epoch in it; None where there was none: the last stop was no clean one.

    What is in the file decides nothing about the logs, that it is there does. So an unreadable one stands for no epoch.
    """
    path = directory / FILE_NAME
    if not disk.exists(path):
        return None
    data = disk.read_file(path)
    disk.unlink(path)
    disk.sync_directory(directory)
    if not data:
        return NO_BROKER_EPOCH
    try:
        content: Any = json.loads(data)
        return int(content["brokerEpoch"]) if content["version"] == 0 else NO_BROKER_EPOCH
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("%s: no broker epoch in %r: %s", path, data[:80], error)
        return NO_BROKER_EPOCH
