"""The adapters' side of the lock protocol (docs/lock-protocol.md), using only the standard library.

Adapters run in their library's own environment and cannot import fencepost. Each calls `serve` with a function that
opens its library.

When did the library compute the validity that it reports? The judge needs bounds for that time: if the validity counts
from too late, the lock is blamed for time that something else took. `BoundedCall` provides the bounds.

- Upper bound: `computed_before_ns` is a timestamp taken right after the call returned.
- Lower bound, for a library that runs in one thread and neither waits nor sleeps between computing and returning: the
  thread spent the time in between either on a processor or waiting for one. The kernel counts both. So the validity was
  computed no earlier than `computed_before_ns` minus the processor time and waiting time *of the whole call*, minus 1
  ms for what the kernel does not count (interrupts, a hypervisor), and not before the call started. The waiting time is
  the second field of /proc/thread-self/schedstat. The processor time is its first field, but that lags by up to a tick
  for a running thread; CLOCK_THREAD_CPUTIME_ID is the same figure, up to date.
- Neither includes the time for which the process was *stopped* (SIGSTOP); the harness knows it and widens the bound.
- A library that says yes and nothing else computes no validity. The bounds of its lease are the start and the end of
  the call (`TimedCall`): the nodes count from the request, and the library waited for their replies after that.
- Without schedstat, the timestamp before the call is the lower bound: wider, but still correct. The same holds when
  other threads work (several tasks that share the lock, a node that is still being connected to): a thread may
  then wait for another one, which is in neither number.

With several tasks (`--tasks`), `serve` calls the adapter from as many threads at once, one for each task, and notes
which call sends what (docs/lock-protocol.md, "Which call sent it"). An adapter of a library that renews its leases has
a method `held(key, value)`, for `--renewal`.

A library for asyncio is served by `fencepost_adapter_async`.
"""

import base64
import contextlib
import importlib.util
import json
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

Answer = dict[str, object]
Value = Any
"""What `ok(value=…)` named a lease: text or bytes."""
Nodes = Sequence[dict[str, Any]]
Settings = dict[str, Any]

MARGIN_NS = 1_000_000
WARM_UP_S = 10.0
"""The longest wait for nodes while opening. The answer to `open` must arrive within 30 s."""
LAST_ANSWERS_S = 1.0
"""After stdin has ended, how long requests that were already read may take."""
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Adapter(Protocol):
    """What `serve` needs. An exception is answered with `info`, because it is unknown how far the call got."""

    def acquire(self, key: str, ttl_ms: int) -> Answer: ...

    def extend(self, key: str, value: Value, ttl_ms: int) -> Answer: ...

    def release(self, key: str, value: Value) -> Answer: ...

    def describe(self) -> Answer:
        """The library's version, and the timeouts and retries that it uses."""
        ...


class TimedCall:
    """`with TimedCall() as call: …`; `call.bounds()` then returns the fields that bound when a lease began of which the
    library says nothing but yes."""

    def __enter__(self) -> "TimedCall":
        self.began_ns = time.monotonic_ns()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended_ns = time.monotonic_ns()

    def bounds(self) -> dict[str, int]:
        return {"computed_after_ns": self.began_ns, "computed_before_ns": self.ended_ns}


class BoundedCall(TimedCall):
    """The same for a library that returns a duration: the fields bound when it was computed."""

    def __enter__(self) -> "BoundedCall":
        self._is_alone = set(threading.enumerate()) <= {threading.current_thread(), _watcher}
        self._busy_before_ns = _busy_ns()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__()
        self._busy_after_ns = _busy_ns()

    def bounds(self) -> dict[str, int]:
        after_ns = self.began_ns
        if self._is_alone and self._busy_before_ns is not None and self._busy_after_ns is not None:
            busy_ns = self._busy_after_ns - self._busy_before_ns
            after_ns = max(after_ns, self.ended_ns - busy_ns - MARGIN_NS)
        return {"computed_after_ns": after_ns, "computed_before_ns": self.ended_ns}


class Attempts:
    """When the newest attempt of this thread, or of this task of asyncio, began.

    For a library that says yes and nothing else, and tries several times in one call: the lease began no earlier than
    the attempt that succeeded. The library makes each attempt by calling `method` of `target`, which is watched here
    and not changed.
    """

    def __init__(self, target: Any, method: str) -> None:
        began_ns: ContextVar[int] = ContextVar("began_ns")
        original = getattr(target, method)

        def watched(*args: Any, **options: Any) -> Any:
            began_ns.set(time.monotonic_ns())
            return original(*args, **options)

        setattr(target, method, watched)
        self._began_ns = began_ns

    def bounds(self) -> dict[str, int]:
        """To be called right after the library said yes."""
        return {"computed_after_ns": self._began_ns.get(), "computed_before_ns": time.monotonic_ns()}


def ok(**fields: object) -> Answer:
    """The fields are those of the protocol. A `value` may be bytes; `extend` and `release` then get the same bytes."""
    value = fields.get("value")
    if isinstance(value, bytes):
        del fields["value"]
        fields["value_base64"] = base64.b64encode(value).decode()
    return {"outcome": "ok", **fields}


def fail(error: object = None) -> Answer:
    """`error`: what the library said."""
    return {"outcome": "fail"} if error is None else {"outcome": "fail", "error": _one_line(error)}


def info(error: object) -> Answer:
    return {"outcome": "info", "error": _one_line(error)}


def warm_up(clients: Iterable[Any]) -> None:
    """Connect redis-py clients, so that no client's first acquire includes the handshake of a new connection. A node
    that is down, or does not reply within WARM_UP_S, is left to the library."""

    def ping(client: Any) -> None:
        with contextlib.suppress(Exception):
            client.ping()

    pings = [threading.Thread(target=ping, args=(client,), daemon=True) for client in clients]
    for each in pings:
        each.start()
    give_up_s = time.monotonic() + WARM_UP_S
    for each in pings:
        each.join(max(0.0, give_up_s - time.monotonic()))


def describe_redis(client: Any) -> Answer:
    """The version of redis-py, and the timeouts and retries with which it made this client."""
    pool = client.connection_pool.connection_kwargs
    # Older versions omit defaults here, so the values are read from a connection; creating one does not connect it.
    connection = client.connection_pool.connection_class(**pool)
    retry = getattr(connection, "retry", None)
    return {
        "redis-py": version("redis"),
        "socket_timeout_s": connection.socket_timeout,
        "socket_connect_timeout_s": connection.socket_connect_timeout,
        "socket_retries": getattr(retry, "_retries", 0),
    }


class Answers:
    """The stdout of the protocol. A library's own output must not mix with the answers: its stdout is our stderr."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        # A killed process cannot flush.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    def write(self, answer: Answer, request: dict[str, Any]) -> None:
        if "task" in request:
            answer["task"] = request["task"]
        self._file.write(json.dumps(answer).encode() + b"\n")  # one write, so that threads do not mix their lines


def serve(open_adapter: Callable[[Nodes, Settings], Adapter]) -> None:
    """Answer requests until stdin ends. An exception while opening is answered with `fail`; tracebacks go to stderr."""
    answers = Answers()
    leave_after_stdin()
    adapter: Any = None
    tasks: dict[int, SimpleQueue[dict[str, Any] | None]] = {}
    threads = []

    def work_for_task(requests: "SimpleQueue[dict[str, Any] | None]") -> None:
        while request := requests.get():
            answers.write(_answer(adapter, request), request)

    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "open":
            try:
                note_senders(request["settings"])
                adapter = open_adapter(request["nodes"], request["settings"])
                check_opened(adapter, request["settings"])
            except Exception as error:
                answers.write(raised(error, request), request)
                continue
        if "task" not in request:
            answers.write(_answer(adapter, request), request)
        elif request["task"] in tasks:
            tasks[request["task"]].put(request)
        else:
            queue = tasks[request["task"]] = SimpleQueue()
            queue.put(request)
            threads.append(threading.Thread(target=work_for_task, args=(queue,), daemon=True))
            threads[-1].start()
        if request["do"] == "close":
            leave()
    for queue in tasks.values():
        queue.put(None)
    for thread in threads:
        thread.join()
    leave()


def calling(task: str | None) -> contextlib.AbstractContextManager[None]:
    """While this is entered, the task calls the lock; None: that is not noted."""
    return contextlib.nullcontext() if task is None else _harness_module("calling").calling(task)


def note_senders(settings: Settings) -> None:
    """From now on, note which call sends what, if the settings name a file for it. Nothing must be connected yet."""
    if "senders" not in settings:
        return
    file = os.open(settings["senders"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(port: int, after_bytes: int, task: str | None) -> None:
        line = {"at_ns": time.monotonic_ns(), "port": port, "after_bytes": after_bytes, "task": task}
        os.write(file, json.dumps(line).encode() + b"\n")  # at once: the process may be killed

    _harness_module("sent_bytes").SentBytes(note, _harness_module("calling").calling_task).__enter__()


@cache
def _harness_module(name: str) -> Any:
    """One of the few that need the standard library alone."""
    spec = importlib.util.spec_from_file_location(f"fencepost_{name}", Path(__file__).parents[2] / f"{name}.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[module.__name__] = module  # dataclasses look there
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def leave_after_stdin() -> None:
    """When stdin has ended, exit within LAST_ANSWERS_S, even if a library still waits for a hung node. The thread that
    watches for it sleeps until then, so it delays no call of the library."""
    _watcher.start()


def _leave_after_stdin() -> None:
    ended = select.poll()
    ended.register(sys.stdin.fileno(), 0)  # only that the other end is closed
    ended.poll()
    time.sleep(LAST_ANSWERS_S)
    leave()


_watcher = threading.Thread(target=_leave_after_stdin, daemon=True)


def leave() -> None:
    """Exit immediately: threads in which a library still waits for a hung node must not keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def check_opened(adapter: Any, settings: Settings) -> None:
    """Raises NotImplementedError if the adapter cannot do what the settings ask for."""
    if settings.get("renewal_ms") is not None and not hasattr(adapter, "held"):
        raise NotImplementedError("this adapter cannot say whether a lock is still held (--renewal)")


def call(adapter: Any, request: dict[str, Any]) -> Any:
    """Do what is asked, and return the adapter's answer; that of an adapter for asyncio has to be awaited first."""
    verb = request["do"]
    if verb == "open":
        return ok(describe=adapter.describe())
    if verb == "acquire":
        return adapter.acquire(request["key"], request["ttl_ms"])
    if verb == "extend":
        return adapter.extend(request["key"], _value(request), request["ttl_ms"])
    if verb == "release":
        return adapter.release(request["key"], _value(request))
    if verb == "held":
        return adapter.held(request["key"], _value(request))
    if verb == "run" and hasattr(adapter, "run"):
        return adapter.run(request["key"], _value(request), request["statement"], request["values"])
    return ok() if verb == "close" else fail("this adapter does not support " + verb)


def raised(error: Exception, request: dict[str, Any]) -> Answer:
    """The answer to a request during which the adapter raised this. It is unknown how far the call got."""
    traceback.print_exception(error)
    return fail(error) if request["do"] == "open" else info(error)


def _answer(adapter: Adapter, request: dict[str, Any]) -> Answer:
    try:
        with calling(request.get("caller")):
            answer: Answer = call(adapter, request)
        return answer
    except Exception as error:
        return raised(error, request)


def _busy_ns() -> int | None:
    """How long this thread has used or waited for a processor, in nanoseconds; None if the kernel does not say."""
    try:
        waited_ns = int(_SCHEDSTAT.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return time.thread_time_ns() + waited_ns


def _value(request: dict[str, Any]) -> Value:
    return base64.b64decode(request["value_base64"]) if "value_base64" in request else request["value"]


def _one_line(error: object) -> str:
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]
