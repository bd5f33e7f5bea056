"""What goes wrong for a client, by what one can do about it.

    ClientError ─┬─ RetriableError     the same call may succeed later; the client has tried that already, in its time
                 ├─ AbortableError     the transaction has to be aborted; then the producer goes on
                 ├─ FatalError         this producer or consumer is of no more use; close it
                 └─ BrokerError        an answer with an error code (protocol's ApiError); retriable ones are both

Whoever catches ClientError has caught all that the client raises about the cluster. What is wrong with a call itself is
a ValueError, TypeError or ConfigError; what cannot be done in the present state is InvalidState.
"""

from __future__ import annotations

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


class ClientError(Exception):
    """Anything that a client raises about the cluster, or about itself."""


class RetriableError(ClientError):
    """The same call may succeed when it is made again."""


class AbortableError(ClientError):
    """The transaction cannot be committed; abort it, and the producer can be used again. The cause says why."""


class FatalError(ClientError):
    """The client cannot be used any more and has to be closed. The cause says why."""


class BrokerError(ClientError, ApiError):
    """A broker's answer that is an error; `code` says which."""


class RetriableBrokerError(BrokerError, RetriableError):
    """A broker's answer that may be another one later."""


class AuthorizationFailed(BrokerError):
    """The cluster does not allow this to the client's user."""


class ProducerFenced(FatalError):
    """Another producer with the same transactional id has begun to work, and this one must not go on."""


class TransactionAborted(ClientError):
    """The record was not sent, for its transaction was aborted."""


class AuthenticationFailed(ClientError):
    """One side could not prove who it is: a certificate or a password was not accepted."""


class ConnectionLost(RetriableError):
    """The connection could not be made, or ended before the answer came."""


class RequestTimedOut(RetriableError):
    """The broker did not answer within request.timeout.ms; the connection is closed, for answers come in order."""


class UnsupportedVersion(ClientError):
    """Client and broker have no version of an API in common, or none that carries what was asked for."""


class NoBrokerAvailable(RetriableError):
    """None of the brokers that are known could be reached."""


class OperationTimedOut(RetriableError):
    """The operation was tried again and again until its time was over; the last error is its cause."""


class BufferExhausted(OperationTimedOut):
    """The producer's buffer.memory was full for max.block.ms."""


class ClientClosed(ClientError):
    """The producer or consumer was closed before the operation was done."""


class InvalidState(ClientError):
    """What was asked for cannot be done now: a commit without a transaction, two tasks in one consumer."""


class RecordTooLarge(ClientError):
    """A record is larger than max.request.size or buffer.memory allows."""


class NoOffsetForPartition(ClientError):
    """A partition has no position, and auto.offset.reset is none."""


class LogTruncated(NoOffsetForPartition):
    """Records that were read are gone, for another replica became the leader, and auto.offset.reset is none."""


class CommitFailed(ClientError):
    """Offsets were not committed, for the group has given the partitions to others meanwhile; poll more often."""


class WokenUp(ClientError):
    """Another task called wakeup while this one waited in poll; nothing is lost."""


class SerializationFailed(ClientError):
    """A key or value could not be turned into bytes, or back; the serializer's own error is its cause."""


_AUTHORIZATION = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


def is_retriable(error: BaseException) -> bool:
    """Whether the same operation may succeed when it is tried again."""
    if isinstance(error, ApiError):
        return error.code.is_retriable
    return isinstance(error, RetriableError)


def calls_for_metadata(error: BaseException) -> bool:
    """Whether what the client believes of the cluster may be wrong after this error."""
    if isinstance(error, ApiError):
        return error.code.calls_for_metadata or error.code is ErrorCode.NOT_CONTROLLER
    return isinstance(error, ConnectionLost | RequestTimedOut | NoBrokerAvailable)


def broker_error(code: ErrorCode, message: str | None = None) -> BrokerError:
    """Make the exception for an error code."""
    if code in _AUTHORIZATION:
        return AuthorizationFailed(code, message or "")
    return (RetriableBrokerError if code.is_retriable else BrokerError)(code, message or "")


def error_of(code: int, message: str | None = None) -> BrokerError | None:
    """Turn an error code of a response into an exception, or None for no error."""
    return broker_error(known_code(code), message) if code else None


def known_code(code: int) -> ErrorCode:
    """Give the member for a code; UNKNOWN_SERVER_ERROR stands for what newer brokers may send."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def raise_for_code(code: int, message: str | None = None) -> None:
    """Raise BrokerError unless the code is NONE."""
    if code:
        raise broker_error(known_code(code), message)
