"""Calls into the author's lock: plain ones in the calling thread, coroutines in an event loop that is always running.

Between two requests a library may have work to do, such as renewing a lease. So the loop has a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, Protocol

from pytest_fencepost.adapter.fencepost_adapter import BoundedCall


class Inside(Protocol):
    """A context manager that is entered to acquire and left to release."""

    def enter(self) -> Any: ...

    def leave(self) -> Any: ...


class Calls:
    """Calls functions of the author's, and knows of the last call in each thread when it was."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._last = threading.local()

    @property
    def around(self) -> dict[str, int]:
        """The last call's beginning and end: they bound when a lease began that says nothing of itself."""
        around: dict[str, int] = self._last.around
        return around

    @property
    def computed(self) -> dict[str, int]:
        """The bounds of when the last call can have computed a duration that it returned."""
        computed: dict[str, int] = self._last.computed
        return computed

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """What it returns; if that is awaitable, what it then gives."""
        with BoundedCall() as call:
            result = function(*arguments)
        self._last.around = {"computed_after_ns": call.began_ns, "computed_before_ns": call.ended_ns}
        self._last.computed = call.bounds()
        if inspect.isawaitable(result):
            result = asyncio.run_coroutine_threadsafe(_awaited(result), self._running_loop()).result()
            # Another thread than this one did the work, so this one's busy time says nothing.
            self._last.around["computed_before_ns"] = time.monotonic_ns()
            self._last.computed = self._last.around
        return result

    def inside(self, manager: Any) -> Inside:
        """The context manager, before it is entered with `call(inside.enter)`."""
        if hasattr(manager, "__aenter__"):
            return _InsideTask(manager, self._running_loop())
        return _InsideThread(manager)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return self._loop


class _InsideThread:
    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._stack = ExitStack()

    def enter(self) -> Any:
        return self._stack.enter_context(self._manager)

    def leave(self) -> None:
        self._stack.close()


class _InsideTask:
    """One task enters and leaves: cancel scopes and time-outs (asyncio, anyio) belong to the task that made them."""

    def __init__(self, manager: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._manager = manager
        self._loop = loop

    async def enter(self) -> Any:
        self._entered: asyncio.Future[Any] = self._loop.create_future()
        self._leave = asyncio.Event()
        self._task = self._loop.create_task(self._stay())
        # It may end by itself, in a time-out of its own; only a release is told of that, and there may be none.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait((self._entered, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not self._entered.done():
            await self._task  # raises what entering raised
        return self._entered.result()

    async def leave(self) -> None:
        self._leave.set()
        await self._task

    async def _stay(self) -> None:
        async with self._manager as given:
            self._entered.set_result(given)
            await self._leave.wait()


def _awaited(result: Any) -> Coroutine[Any, Any, Any]:
    async def wait() -> Any:
        return await result

    return wait()
