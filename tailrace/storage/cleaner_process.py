"""A cleaner in a process of its own, and the thread's handle on it.

Compaction looks at every record, which in Python holds the interpreter: on a thread beside the event loop it brought a
request's median round trip from 0.06 to 3.9 ms, in a child to 0.08 (bench/compaction.py). So the thread only waits. The
child shares nothing with the broker but the files; whenever it is killed, all that is lost is a cleaning. It looks
whether its parent is still there, so it does not outlive a broker that was killed.

Messages are pickles behind a 4-byte length: to the child a `CleaningPlan`, then "next" as often as a segment is
wanted; from it a `MapReport`, then each `CleanedSegment` or None, or the `CleaningFailure` that ended it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from struct import Struct
from threading import Event
from typing import IO

import tailrace
from tailrace.clock import SystemClock
from tailrace.storage.cleaner_pace import CleanerPace, CleaningStopped
from tailrace.storage.cleaning_plan import CleanedSegment, CleaningFailure, CleaningPlan, MapReport
from tailrace.storage.disk import Disk
from tailrace.storage.segment_cleaner import SegmentCleaner

_NICENESS = 10
"""Serving comes first where processors are few."""
_length = Struct(">I")


class CleanerProcess:
    """A child that performs one plan. Everything blocks: for threads."""

    def __init__(self, plan: CleaningPlan) -> None:
        self._plan = plan
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start the child; OSError where that can't be."""
        if getattr(sys, "frozen", False) or not sys.executable:
            raise OSError("there is no Python interpreter to start")
        # With -m the first place of modules is the directory it starts in: that has to be ours, not the user's.
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tailrace.storage.cleaner_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(tailrace.__file__).resolve().parent.parent,
            start_new_session=True,  # Control-C is the broker's to handle.
        )
        if self._is_stopped:
            self._child.kill()

    def build_map(self) -> MapReport:
        """Have the child read the dirty segments; errors as from `SegmentCleaner`."""
        report = self._ask(self._plan)
        assert isinstance(report, MapReport)
        return report

    def clean_next(self) -> CleanedSegment | None:
        """Have it clean the next segments into one; None where all are done."""
        answer = self._ask("next")
        assert answer is None or isinstance(answer, CleanedSegment)
        return answer

    def stop(self) -> None:
        """End the child; whoever waits for it gets `CleaningStopped`. May be called from another thread."""
        self._is_stopped = True
        child = self._child
        if child is not None:
            child.kill()

    def close(self) -> None:
        """Let the child go, when nobody waits for it any more."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _ask(self, question: object) -> object:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            _send(child.stdin, question)
            answer = _receive(child.stdout)
        except (OSError, EOFError) as error:
            if self._is_stopped:
                raise CleaningStopped from error
            raise ChildProcessError(f"the cleaner's process ended with {child.wait()}") from error
        if isinstance(answer, CleaningFailure):
            raise answer.error()
        return answer


class _ParentEnd(Event):
    """An event that has happened when the broker is gone."""

    def __init__(self) -> None:
        super().__init__()
        self._parent = os.getppid()

    def is_set(self) -> bool:
        return os.getppid() != self._parent


def _send(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    stream.write(_length.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> object:
    head = stream.read(_length.size)
    if len(head) < _length.size:
        raise EOFError
    (size,) = _length.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)  # Both ends are this program.


def main() -> None:
    """Perform the plan that comes on standard input; end with it."""
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # Nothing else may get between the answers.
    os.nice(_NICENESS)
    plan = _receive(questions)
    assert isinstance(plan, CleaningPlan)
    pace = CleanerPace(SystemClock(), plan.limits.bytes_per_second, _ParentEnd())
    cleaner = SegmentCleaner(plan, Disk(), pace)
    try:
        _send(answers, cleaner.build_map())
        while True:
            _receive(questions)
            _send(answers, cleaner.clean_next())
    except (EOFError, BrokenPipeError, CleaningStopped):
        return
    except Exception as error:  # noqa: BLE001 - the broker is told, and decides
        _send(answers, CleaningFailure.of(error))


if __name__ == "__main__":
    main()
