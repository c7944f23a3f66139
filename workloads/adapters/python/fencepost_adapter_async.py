"""The adapters' side of the lock protocol for a library that is used with asyncio: all of the adapter's methods are
coroutines, but for `describe`.

One event loop in the main thread runs for as long as the adapter does. So a library's own tasks (a watchdog that
extends a lease) go on between two requests, as they do in a user's program, and several tasks (`--tasks`) are tasks of
this loop that share one lock object.

Requests are read by the loop as well. No other thread works, so the bounds of `BoundedCall` hold here, too: between
computing a result and returning it, a coroutine that awaits nothing was running, or waited for a processor.
"""

import asyncio
import contextlib
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from fencepost_adapter import (
    WARM_UP_S,
    Answer,
    Answers,
    Nodes,
    Settings,
    Value,
    call,
    calling,
    check_opened,
    info,
    leave,
    leave_after_stdin,
    note_senders,
    raised,
)

_MAX_LINE_BYTES = 1 << 20


class AsyncAdapter(Protocol):
    """What `serve` needs; `held(key, value)` is optional. As in `fencepost_adapter.Adapter`, an exception is answered
    with `info`."""

    async def acquire(self, key: str, ttl_ms: int) -> Answer: ...

    async def extend(self, key: str, value: Value, ttl_ms: int) -> Answer: ...

    async def release(self, key: str, value: Value) -> Answer: ...

    def describe(self) -> Answer: ...


async def warm_up(connecting: Iterable[Awaitable[Any]]) -> None:
    """Wait until these have connected: for a client of redis-py, its `ping()`. A node that is down is left to the
    library."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*connecting, return_exceptions=True), WARM_UP_S)


def serve(open_adapter: Callable[[Nodes, Settings], Awaitable[AsyncAdapter]]) -> None:
    """Answer requests until stdin ends. An exception while opening is answered with `fail`; tracebacks go to stderr."""
    asyncio.run(_serve(open_adapter, Answers()))


async def _serve(open_adapter: Callable[[Nodes, Settings], Awaitable[AsyncAdapter]], answers: Answers) -> None:
    adapter: Any = None
    under_way: set[asyncio.Task[None]] = set()

    async def respond(request: dict[str, Any]) -> None:
        try:
            with calling(request.get("caller")):
                answer = call(adapter, request)
                if inspect.isawaitable(answer):
                    answer = await _unless_cancelled(answer, request.get("cancel_after_ms"))
        except Exception as error:
            answer = raised(error, request)
        answers.write(answer, request)

    leave_after_stdin()
    async for line in await _stdin():
        request = json.loads(line)
        if request["do"] == "open":
            try:
                note_senders(request["settings"])
                adapter = await open_adapter(request["nodes"], request["settings"])
                check_opened(adapter, request["settings"])
            except Exception as error:
                answers.write(raised(error, request), request)
                continue
        if request["do"] == "close":
            await respond(request)
            leave()
        task = asyncio.create_task(respond(request))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    leave()


async def _unless_cancelled(answer: Awaitable[Answer], after_ms: float | None) -> Answer:
    """The answer, unless the user cancels the call: its task is cancelled, as `asyncio.timeout` does it. A library that
    finishes all the same is taken at its word."""
    if after_ms is None:
        return await answer
    task = asyncio.ensure_future(answer)
    timer = asyncio.get_running_loop().call_later(after_ms / 1000, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return {**info(f"cancelled after {after_ms:g} ms"), "cancelled": True}
    finally:
        timer.cancel()


async def _stdin() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
