"""Free loopback ports for brokers that a test starts.

They lie below the range from which the system takes ports for connections, because between the choice and the start of
the broker, which for a JVM is seconds, anybody's connection could take one from there.
"""

from __future__ import annotations

import random
import socket
from typing import Final

_LOWEST: Final = 10_000
_BEHIND_HIGHEST: Final = 32_768
"""Where Linux begins its `ip_local_port_range`, unless it is told otherwise."""
_ATTEMPTS_MAX: Final = 1_000

_chance: Final = random.SystemRandom()
_given: Final[set[int]] = set()


def free_port() -> int:
    """Give a TCP port on 127.0.0.1 that nobody listens on now, each once; OSError where none is found."""
    for _ in range(_ATTEMPTS_MAX):
        port = _chance.randrange(_LOWEST, _BEHIND_HIGHEST)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError(f"no free port on 127.0.0.1 between {_LOWEST} and {_BEHIND_HIGHEST} in {_ATTEMPTS_MAX} attempts")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
