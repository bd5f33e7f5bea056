"""What the operating system says of a broker's process: CPU seconds and resident memory."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes), without the pages of mapped files that the kernel can drop."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * _PAGE / 1e6


def resident_total_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes), with shared libraries and mapped files."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
