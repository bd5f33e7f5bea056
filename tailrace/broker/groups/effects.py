"""What a group's state machine asks its coordinator to do.

A machine is given an event and returns effects, in the order in which they have to happen. It knows no clock, task or
log: a timer is a name that comes back as an event, and what has to be written down first is a `Persist` whose outcome
comes back as an event as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tailrace.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class Answer:
    """Send `response` to the request that `reply` stands for; the machine looks at `reply` no further."""

    reply: Any
    response: Message


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call back with `name` in `delay_ms`; a timer of that name that is running already is replaced."""

    name: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer of that name, if it is running."""

    name: str


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the group down as it is now, and report the outcome as `stored(ticket, error)`.

    `ticket` says what waits for it; None where nothing does.
    """

    ticket: Any = None


Effect: TypeAlias = Answer | SetTimer | CancelTimer | Persist
