"""What goes wrong between a client and its brokers. An answer that carries an error code is protocol's ApiError.

`is_retriable` tells both kinds apart from those that the same request can only meet again.
"""

from __future__ import annotations

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


class ClientError(Exception):
    """Anything that a client raises itself."""


class ConnectionLost(ClientError):
    """The connection could not be made, or ended before the answer came."""


class RequestTimedOut(ClientError):
    """The broker did not answer within request.timeout.ms; the connection is closed, for answers come in order."""


class UnsupportedVersion(ClientError):
    """Client and broker have no version of an API in common, or none that carries what was asked for."""


class NoBrokerAvailable(ClientError):
    """None of the brokers that are known could be reached."""


class OperationTimedOut(ClientError):
    """The operation was tried again and again until its time was over; the last error is its cause."""


class ClientClosed(ClientError):
    """The producer or consumer was closed before the operation was done."""


class RecordTooLarge(ClientError):
    """A record is larger than max.request.size allows."""


class NoOffsetForPartition(ClientError):
    """A partition has no position, and auto.offset.reset is none."""


def is_retriable(error: BaseException) -> bool:
    """Whether the same operation may succeed when it is tried again."""
    if isinstance(error, ApiError):
        return error.code.is_retriable
    return isinstance(error, ConnectionLost | RequestTimedOut | NoBrokerAvailable)


def calls_for_metadata(error: BaseException) -> bool:
    """Whether what the client believes of the cluster may be wrong after this error."""
    if isinstance(error, ApiError):
        return error.code.calls_for_metadata or error.code is ErrorCode.NOT_CONTROLLER
    return isinstance(error, ConnectionLost | RequestTimedOut | NoBrokerAvailable)


def error_of(code: int, message: str | None = None) -> ApiError | None:
    """Turn an error code of a response into an exception, or None for no error."""
    return ApiError(known_code(code), message or "") if code else None


def known_code(code: int) -> ErrorCode:
    """Give the member for a code; UNKNOWN_SERVER_ERROR stands for what newer brokers may send."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def raise_for_code(code: int, message: str | None = None) -> None:
    """Raise ApiError unless the code is NONE."""
    if code:
        raise ApiError(known_code(code), message or "")
