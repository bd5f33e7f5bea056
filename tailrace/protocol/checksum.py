"""CRC-32C, which protects record batches, and our own metadata: the function of the `crc32c` wheel, in C.

The wheel's package asks at its import for its own version, and `importlib.metadata` answers that with an e-mail parser:
10 ms of every start, a twentieth of it. So the extension module that lies in the package is loaded by itself; where a
later version of the wheel has it elsewhere, the package is imported as everybody does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import cast

from tailrace.protocol.buffers import Buffer

Checksum = Callable[[Buffer], int]


def load() -> Checksum:
    """Find the function without its package, or in its package where it has to be."""
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        extension = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            return cast("Checksum", module.crc32c)
    from crc32c import crc32c as function

    return cast("Checksum", function)


crc32c: Checksum = load()
"""Give the CRC-32C of these bytes."""
