"""A producer's transaction as a state, and what errors do to it. Pure.

                  ┌──────────────── end ────────────────┐
    uninitialized → initializing → ready → in transaction → committing / aborting
                                               │                │
                                               └→ abortable error → aborting         any → fatal error

What can be undone by an abort is an abortable error; after a fatal one the producer is of no more use. Which is which
follows Kafka 4.1 (KIP-98, KIP-360, KIP-890, KIP-1050).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from tailrace.client.errors import (
    AbortableError,
    BrokerError,
    ClientError,
    FatalError,
    InvalidState,
    ProducerFenced,
    UnsupportedVersion,
)
from tailrace.protocol.error_codes import ErrorCode


class State(Enum):
    """Where a transactional producer is."""

    UNINITIALIZED = "has not called init_transactions"
    INITIALIZING = "is in init_transactions"
    READY = "has no transaction"
    IN_TRANSACTION = "is in a transaction"
    COMMITTING = "commits a transaction"
    ABORTING = "aborts a transaction"
    ABORTABLE_ERROR = "has a transaction that must be aborted"
    FATAL_ERROR = "has failed"


_NEXT: Final[dict[State, frozenset[State]]] = {
    State.UNINITIALIZED: frozenset({State.INITIALIZING}),
    State.INITIALIZING: frozenset({State.READY, State.UNINITIALIZED}),
    State.READY: frozenset({State.IN_TRANSACTION}),
    State.IN_TRANSACTION: frozenset({State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR}),
    State.COMMITTING: frozenset({State.READY, State.ABORTABLE_ERROR}),
    State.ABORTING: frozenset({State.READY}),
    State.ABORTABLE_ERROR: frozenset({State.ABORTING}),
    State.FATAL_ERROR: frozenset(),
}


class TransactionState:
    """The state, and the error that it has where it is one."""

    def __init__(self) -> None:
        self.now = State.UNINITIALIZED
        self.error: ClientError | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that is not ended."""
        return self.now in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR)

    def go(self, target: State) -> None:
        """Pass to the next state; InvalidState, or the error there is, where that is no next one."""
        if target not in _NEXT[self.now]:
            if self.error is not None:
                raise self.error
            raise InvalidState(f"the producer {self.now.value}: it can't go on as one that {target.value}")
        self.now = target
        self.error = None

    def require(self, state: State) -> None:
        """Raise InvalidState, or the error there is, unless this is the state."""
        if self.now is not state:
            if self.error is not None:
                raise self.error
            raise InvalidState(f"the producer {self.now.value}, and not what is needed: one that {state.value}")

    def fail(self, error: AbortableError | FatalError) -> bool:
        """Take an error; say whether it changed anything: what is being aborted cannot be spoilt any more."""
        if isinstance(error, FatalError):
            if self.now is State.FATAL_ERROR:
                return False
            self.now, self.error = State.FATAL_ERROR, error
            return True
        if self.now not in (State.IN_TRANSACTION, State.COMMITTING):
            return False
        self.now, self.error = State.ABORTABLE_ERROR, error
        return True


class Step(Enum):
    """What was done when an error came."""

    INIT = auto()
    ADD_PARTITIONS = auto()
    ADD_OFFSETS = auto()
    COMMIT_OFFSETS = auto()
    END = auto()
    PRODUCE = auto()


_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_ABORTABLE: Final[dict[Step, frozenset[ErrorCode]]] = {
    Step.INIT: frozenset(),
    Step.ADD_OFFSETS: frozenset(
        {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED}
    ),
    Step.COMMIT_OFFSETS: frozenset(
        {
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.STALE_MEMBER_EPOCH,
        }
    ),
    Step.END: frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID}),
}
_FATAL: Final[dict[Step, frozenset[ErrorCode]]] = {
    Step.ADD_PARTITIONS: frozenset(
        {
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        }
    ),
    Step.PRODUCE: frozenset(
        {
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        }
    ),
}
_REFUSED_AT_FIRST: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


def may_begin_again(error: ClientError) -> bool:
    """Whether init_transactions can be called again after this error: once somebody has granted what is missing."""
    return isinstance(error, BrokerError) and error.code in _REFUSED_AT_FIRST


def verdict(step: Step, error: ClientError, what: str) -> AbortableError | FatalError:
    """Say what an error that does not pass means for the transaction: to be aborted, or the producer's end.

    A step with a list of what is fatal takes everything else for abortable, and the other way round.
    """
    if isinstance(error, AbortableError | FatalError):
        return error
    made: AbortableError | FatalError
    code = error.code if isinstance(error, BrokerError) else None
    if code is None:
        is_abortable = step is Step.PRODUCE and not isinstance(error, UnsupportedVersion)
        made = (AbortableError if is_abortable else FatalError)(f"{what}: {error}")
    elif code in _FENCED and (step is not Step.PRODUCE or code is ErrorCode.PRODUCER_FENCED):
        made = ProducerFenced(f"{what}: another producer has begun with the same transactional id: {error}")
    elif step in _FATAL:
        made = (FatalError if code in _FATAL[step] else AbortableError)(f"{what}: {error}")
    else:
        made = (AbortableError if code in _ABORTABLE[step] else FatalError)(f"{what}: {error}")
    made.__cause__ = error
    return made
