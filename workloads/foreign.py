"""`ForeignLock`: a lock that runs in a program of its own and speaks JSON lines on stdin and stdout.

The protocol is described in `docs/lock-protocol.md`. The program is a child in the client's own process group, so that
a pause or a kill of the group hits both, and it ends when its stdin closes, so that it never outlives the client. What
it writes on stderr goes into the log that the settings name.

An adapter that answers `info` raises `UnknownOutcomeError`, which is about one operation. An adapter that dies, or
that breaks the protocol, raises `BrokenEnvironmentError`: nothing it said later could be trusted.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, Literal

import msgspec

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Int64
from fencepost.options import fields_of
from fencepost.text import text_of
from workloads.answer_checks import checked_lease
from workloads.base import CancelledCallError, Lease, LockSettings, NodeAddress
from workloads.calling import calling_task
from workloads.options import LockOptions

PROTOCOL_VERSION: Final = 1
OPEN_TIMEOUT_S: Final = 30.0
"""The longest wait for the answer to `open`. Later answers are waited for as long as the lock takes: how long an
acquire may last is a property of the lock, and the harness ends clients that do not come back."""
CLOSE_TIMEOUT_S: Final = 1.0
_JVM_OPTIONS: Final = "JAVA_TOOL_OPTIONS"
_MAX_LINE_BYTES: Final = 1 << 20
_SHOWN_CHARACTERS: Final = 200
_NAMES_IN_GO: Final = re.compile("panic: |fatal error: ")
_NAMES_WITH_A_STACK: Final = re.compile(r"panic: |fatal error: |(Exception in thread \S+ )?[\w.$]*(Error|Exception)\b")


class UnknownOutcomeError(Exception):
    """The adapter answered `info`: it is unknown whether it happened."""


class AdapterAnswer(msgspec.Struct, frozen=True):
    """One line from the adapter. The fields of a lease are those of `workloads.base.Lease`; its value is text, or
    base64 for other bytes. `task`: whose request it answers, if several tasks share the lock."""

    outcome: Literal["ok", "fail", "info"]
    task: int | None = None
    error: str | None = None
    describe: dict[str, object] | None = None
    value: str | None = None
    value_base64: str | None = None
    validity_ms: float | None = None
    granted_ms: float | None = None
    deadline_ns: Int64 | None = None
    computed_after_ns: Int64 | None = None
    computed_before_ns: Int64 | None = None
    requested_ns: Int64 | None = None
    token: Int64 | None = None
    open_ended: bool = False
    result: str | None = None
    cancelled: bool = False


class _OfTask(threading.local):
    """What one task keeps: its number, from its first request on; what was said if its last request was refused; and
    after how long its next one is to be cancelled."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.error: str | None = None
        self.cancel_after_ms: float | None = None


def _with_private_jvms(environment: Mapping[str, str]) -> dict[str, str]:
    """A JVM keeps a file in /tmp that is named after the number of its process. Each run counts from 1, so the JVMs of
    parallel runs meet there; the second one says so on its standard output, where only answers may be."""
    words = (environment.get(_JVM_OPTIONS, ""), "-XX:-UsePerfData")
    return {**environment, _JVM_OPTIONS: " ".join(filter(None, words))}


class ForeignLock:
    """A lock behind the protocol. The constructor starts the program, with `environment` added to our own, and waits
    until it has opened.

    Several tasks (threads) may call it at once: each has one request under way, which carries the task's number, and a
    thread of its own hands out the answers.
    """

    def __init__(
        self,
        command: Sequence[str],
        nodes: Sequence[NodeAddress],
        settings: LockSettings,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._environment = _with_private_jvms({**os.environ, **(environment or {})})
        self._log_path = settings.log_path
        self._names_callers = settings.senders_path is not None
        self._decoder = msgspec.json.Decoder(AdapterAnswer)
        self._unread = b""
        self._mine = _OfTask()
        self._numbers = count(1)
        self._answers: dict[int, SimpleQueue[AdapterAnswer | BrokenEnvironmentError]] = {}
        self._asking: set[int] = set()
        self._is_sound = True
        self._writing = threading.Lock()
        self._child = self._start()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._to_child: IO[bytes] = self._child.stdin
        self._from_child = self._child.stdout.fileno()
        self._readable = select.poll()  # select.select knows no descriptor above 1,023
        self._readable.register(self._from_child, select.POLLIN)
        request = {
            "do": "open",
            "protocol": PROTOCOL_VERSION,
            "nodes": [_dialled(node) for node in nodes],
            "settings": fields_of(settings, LockOptions)
            | {"seed": settings.rng.getrandbits(48), "manifest": settings.manifest}
            | ({"sentinels": [_dialled(one) for one in settings.sentinels]} if settings.sentinels else {})
            | ({"senders": str(settings.senders_path)} if settings.senders_path else {}),
        }
        try:
            answer = self._exchange(request, OPEN_TIMEOUT_S)
            if answer.outcome != "ok":
                raise self._broken(f"did not open: {answer.error or 'no reason given'}")
        except BaseException:
            self._end()
            raise
        self._description = answer.describe or {}
        if settings.tasks > 1:
            self._answers = {number: SimpleQueue() for number in range(1, settings.tasks + 1)}
            threading.Thread(target=self._hand_out, daemon=True).start()

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        answer = self._ask({"do": "acquire", "key": key, "ttl_ms": ttl_ms})
        return self._lease(key, answer) if _definite(answer) else None

    def acquire_shared(self, key: str, ttl_ms: int) -> Lease | None:
        answer = self._ask({"do": "acquire_shared", "key": key, "ttl_ms": ttl_ms})
        return self._lease(key, answer) if _definite(answer) else None

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        answer = self._ask({"do": "extend", "key": lease.key, **_named(lease), "ttl_ms": ttl_ms})
        return self._lease(lease.key, answer) if _definite(answer) else None

    def release(self, lease: Lease) -> bool:
        return _definite(self._ask({"do": "release", "key": lease.key, **_named(lease)}))

    def is_held(self, lease: Lease) -> bool:
        return _definite(self._ask({"do": "held", "key": lease.key, **_named(lease)}))

    def run(self, lease: Lease, statement: str, values: Sequence[str]) -> str | None:
        request = {"do": "run", "key": lease.key, **_named(lease), "statement": statement, "values": values}
        answer = self._ask(request)
        if answer.outcome != "ok":
            raise UnknownOutcomeError(answer.error or f"the adapter answered {answer.outcome}")
        return answer.result

    def cancel_after(self, limit_ms: float) -> None:
        self._mine.cancel_after_ms = limit_ms

    def take_error(self) -> str | None:
        mine = self._mine
        error, mine.error = mine.error, None
        return error

    def close(self) -> None:
        """Ask the program to end, close its stdin, and kill it if it is still there a second later. Raises
        BrokenEnvironmentError, when that is done, if it had answered a request twice."""
        try:
            if self._is_sound and not self._answers:
                self._check_silence()
        finally:
            self._end()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._to_child.write(b'{"do":"close"}\n')
        with contextlib.suppress(OSError):
            self._to_child.close()
        try:
            self._child.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    @property
    def pids(self) -> Sequence[int]:
        """The program that was started; not what it may start in turn."""
        return (self._child.pid,)

    def describe(self) -> dict[str, object]:
        """What the adapter said about itself when it opened, and the command that runs it."""
        return {**self._description, "command": self._command}

    def _start(self) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as files:
            log = files.enter_context(self._log_path.open("ab")) if self._log_path else subprocess.DEVNULL
            try:
                return subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    bufsize=0,
                    env=self._environment,
                )
            except OSError as error:
                raise self._broken(f"cannot be started: {error.strerror}") from None

    def _ask(self, request: dict[str, object]) -> AdapterAnswer:
        mine = self._mine
        limit_ms, mine.cancel_after_ms = mine.cancel_after_ms, None
        if limit_ms is not None:
            request = {**request, "cancel_after_ms": limit_ms}
        if self._names_callers and (task := calling_task()) is not None:
            request = {**request, "caller": task}
        answer = self._exchange_of_task(request) if self._answers else self._exchange(request)
        mine.error = answer.error if answer.outcome == "fail" else None
        if answer.cancelled and answer.outcome == "info" and limit_ms is not None:
            raise CancelledCallError(answer.error or f"cancelled after {limit_ms:g} ms")
        return answer

    def _exchange(self, request: dict[str, object], timeout_s: float | None = None) -> AdapterAnswer:
        self._check_silence()
        self._send(request)
        line = self._read_line(None if timeout_s is None else time.monotonic() + timeout_s)
        return self._decoded(line, f"answered {request['do']} with")

    def _check_silence(self) -> None:
        """Raises BrokenEnvironmentError if the program has said something since its last answer: from then on it is
        unknown which request an answer is for."""
        if not self._unread and self._readable.poll(0):
            self._unread = os.read(self._from_child, 65_536)
            if not self._unread:
                raise self._ended()
        if self._unread:
            said = self._unread.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
            raise self._broken(f"said {said!r} without a request; each request has one answer")

    def _exchange_of_task(self, request: dict[str, object]) -> AdapterAnswer:
        mine = self._mine
        if mine.number is None:
            mine.number = next(self._numbers)
        self._asking.add(mine.number)
        self._send({**request, "task": mine.number})
        answer = self._answers[mine.number].get()
        if isinstance(answer, BrokenEnvironmentError):
            self._answers[mine.number].put(answer)  # no reader is left: every later request ends so, too
            raise answer
        return answer

    def _hand_out(self) -> None:
        """Read answers and give each to the task that it is for, until the program ends or breaks the protocol; then
        every task gets the error."""
        try:
            while True:
                answer = self._decoded(self._read_line(None), "said")
                if answer.task not in self._answers:
                    raise self._broken(
                        f"answered without the `task` of the request ({answer.task}); a lock that several tasks share "
                        "has to say whose request it answers"
                    )
                if answer.task not in self._asking:
                    raise self._broken(f"answered task {answer.task} although it had not asked")
                self._asking.discard(answer.task)
                self._answers[answer.task].put(answer)
        except BrokenEnvironmentError as error:
            for answers in self._answers.values():
                answers.put(error)

    def _send(self, request: dict[str, object]) -> None:
        line = msgspec.json.encode(request) + b"\n"
        try:
            with self._writing:
                self._to_child.write(line)
        except BrokenPipeError:
            raise self._ended() from None

    def _decoded(self, line: bytes, how: str) -> AdapterAnswer:
        try:
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            said = line.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
            raise self._broken(f"{how} {said!r}, which is no answer ({error})") from None

    def _read_line(self, deadline: float | None) -> bytes:
        while b"\n" not in self._unread:
            if len(self._unread) > _MAX_LINE_BYTES:
                start = self._unread.decode(errors="replace")[:_SHOWN_CHARACTERS]
                raise self._broken(f"wrote more than a megabyte without ending its line, beginning {start!r}")
            if deadline is not None and not self._readable.poll(1e3 * max(deadline - time.monotonic(), 0)):
                raise self._broken(f"did not answer open within {OPEN_TIMEOUT_S:g} s")
            data = os.read(self._from_child, 65_536)
            if not data:
                raise self._ended()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _lease(self, key: str, answer: AdapterAnswer) -> Lease:
        try:
            value = _text(answer.value, answer.value_base64)
        except ValueError as error:
            raise self._broken(f"granted a lock, but {error}") from None
        lease = Lease(
            key,
            value,
            answer.validity_ms,
            deadline_ns=answer.deadline_ns,
            computed_after_ns=answer.computed_after_ns,
            computed_before_ns=answer.computed_before_ns,
            requested_ns=answer.requested_ns,
            token=answer.token,
            handle=answer.value_base64,
            granted_ms=answer.granted_ms,
            open_ended=answer.open_ended,
        )
        try:
            checked_lease("answer", lease, key)
        except BrokenEnvironmentError as error:
            raise self._broken(f"broke the protocol: {error}") from None
        return lease

    def _ended(self) -> BrokenEnvironmentError:
        try:
            code = self._child.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return self._broken("closed its stdout, but runs on")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said = self._unread.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
        return self._broken(f"{how} before it answered" + (f", after saying {said!r}" if said else ""))

    def _broken(self, what: str) -> BrokenEnvironmentError:
        self._is_sound = False
        where = f"; its log is {self._log_path}{_last_words(self._log_path)}" if self._log_path else ""
        return BrokenEnvironmentError(f"the lock command `{shlex.join(self._command)}` {what}{where}")


def _dialled(node: NodeAddress) -> dict[str, object]:
    password = {} if node.password is None else {"password": node.password}
    known_as = {} if node.known_as is None else {"known_as": node.known_as}
    return {"host": node.host, "port": node.port, "url": node.url, **password, **known_as}


def _definite(answer: AdapterAnswer) -> bool:
    if answer.outcome == "info":
        raise UnknownOutcomeError(answer.error or "the adapter answered info")
    return answer.outcome == "ok"


def _text(value: str | None, value_base64: str | None) -> str:
    """The value as text (`fencepost.text.text_of`). Raises ValueError unless exactly one of the two is there."""
    if value is not None and value_base64 is None:
        return value
    if value is not None or value_base64 is None:
        raise ValueError("the answer needs either `value` or `value_base64`")
    try:
        return text_of(base64.b64decode(value_base64, validate=True))
    except binascii.Error as error:
        raise ValueError(f"its `value_base64` is not base64: {error}") from None


def _named(lease: Lease) -> dict[str, object]:
    """How a request names a lease: by the value, as the adapter itself said it."""
    return {"value": lease.value} if lease.handle is None else {"value_base64": lease.handle}


def _last_words(log_path: Path) -> str:
    """The line of the log that names what ended the program: the last one, unless Go, Node.js or a JVM wrote its stack
    below."""
    with contextlib.suppress(OSError):
        lines = [line for line in log_path.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()]
        if lines:
            ends_in_a_stack = lines[-1][0].isspace() or lines[-1].startswith("Node.js v")
            names = _NAMES_WITH_A_STACK if ends_in_a_stack else _NAMES_IN_GO
            words = [lines[-1], *filter(names.match, lines)][-1]
            return f" ({words.strip()[:_SHOWN_CHARACTERS]})"
    return ""
