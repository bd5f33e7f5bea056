"""A blocking client: an asyncio client on the loop's thread, and methods that wait for its methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from tailrace.client.blocking.loop_thread import LoopThread, acquire, release

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class BlockingClient(Generic[C]):
    """Makes the asyncio client on the loop's thread; whoever makes one closes it."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._thread: LoopThread | None = acquire()
        try:
            self._inner = self._thread.call(make)
        except BaseException:
            self._let_go()
            raise

    @property
    def asynchronous(self) -> C:
        """The asyncio client itself, for coroutines that run on the clients' thread, as a listener's do."""
        return self._inner

    def _loop(self) -> LoopThread:
        """Give the thread; RuntimeError where the client has let it go."""
        if self._thread is None:
            raise RuntimeError(f"the {type(self).__name__.lower()} is closed")
        return self._thread

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._loop().run(work())

    def _call(self, function: Callable[[], T]) -> T:
        return self._loop().call(function)

    def _let_go(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            release(thread)


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[BlockingClient[Any], P], R]:
    """Make a method that waits for one of the asyncio client's."""
    name = method.__name__

    def wait(self: BlockingClient[Any], /, *arguments: P.args, **options: P.kwargs) -> R:
        result: R = self._run(lambda: getattr(self._inner, name)(*arguments, **options))  # pyright: ignore[reportPrivateUsage]
        return result

    functools.update_wrapper(wait, method)
    return wait


def on_loop(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[BlockingClient[Any], P], R]:
    """Make a method that calls one of the asyncio client's, which does not wait, on its thread."""
    name = method.__name__

    def call(self: BlockingClient[Any], /, *arguments: P.args, **options: P.kwargs) -> R:
        result: R = self._call(lambda: getattr(self._inner, name)(*arguments, **options))  # pyright: ignore[reportPrivateUsage]
        return result

    functools.update_wrapper(call, method)
    return call
