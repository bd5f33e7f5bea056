"""How an operation on a log fails.

`RecordsRejected` is the answer to a batch whose records break a rule; `LogOffline` what every operation gets after
the disk refused one or a damaged batch was met; `SegmentDamaged` is how a reader of segments says that good data lies
behind bad bytes, so that nothing may be cut. A failing disk itself is `disk.DiskError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


class RecordsRejected(ApiError):
    """A batch that was not appended because of its records.

    `record_errors` names the records by their index in the batch, for Produce v8+ (KIP-467).
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class LogOffline(ApiError):
    """The log does not serve: its directory failed or its data is damaged."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class SegmentDamaged(Exception):
    """A batch that can't be what was written, where cutting it off would lose data."""

    def __init__(self, path: object, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason
