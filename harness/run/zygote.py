"""The harness's side of the zygote (`workloads.zygote`), and the processes that it forks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from cluster.waiting import is_readable
from fencepost.errors import BrokenEnvironmentError
from workloads.zygote import MESSAGE_BYTES, Failed, Fork, Forked, Reap, Reaped, Reply, Request

_REPLY_WITHIN_S: Final = 30.0
"""It imports first; on a very busy machine that takes seconds."""
_TRIES: Final = 2
"""It may have been killed just now. Nothing was forked then: a client replies itself, before its socket is closed."""
UNKNOWN: Final = 256
"""In place of an exit code, which is a byte: the zygote ended before it could say it."""
_DECODER: Final = msgspec.json.Decoder(Reply)


class Process(Protocol):
    """What slots need of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...


class Zygote:
    """A context manager, from any thread. The process is started for the first client, and again if somebody killed it:
    what it had forked is not touched by that. `environment`: its own and that of every client."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._one_request = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._one_request:
            self._end()

    def fork(self, spec: Path, log: Path) -> Process:
        """A new client, which leads a session of its own. Raises OSError and BrokenEnvironmentError."""
        with self._one_request:
            for _ in range(_TRIES):
                parent = self._running()
                match self._ask(Fork(str(spec), str(log))):
                    case Forked(pid):
                        return _Forked(self, parent, pid)
                    case Failed(why):
                        raise BrokenEnvironmentError(why)
            raise BrokenEnvironmentError("the process that forks clients ends, or does not answer")

    def reap(self, parent: subprocess.Popen[bytes], pid: int) -> int:
        """How a process ended that has ended; UNKNOWN if its parent has ended, too."""
        with self._one_request:
            if parent is self._process:
                match self._ask(Reap(pid)):
                    case Reaped(code):
                        return code
            return UNKNOWN

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_REPLY_WITHIN_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workloads.zygote", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=self.environment,
            )
        return self._process

    def _ask(self, request: Request) -> Reply | None:
        """None: it has ended."""
        assert self._socket is not None
        try:
            self._socket.send(msgspec.json.encode(request))
            reply = self._socket.recv(MESSAGE_BYTES)
        except OSError:
            reply = b""
        if not reply:
            self._end()  # also one that hangs: its reply must not be taken for that to a later request
            return None
        decoded: Reply = _DECODER.decode(reply)
        return decoded

    def _end(self) -> None:
        process, asking, self._process, self._socket = self._process, self._socket, None, None
        if asking is not None:
            asking.close()
        if process is not None:
            process.kill()  # it has nothing to finish
            process.wait()


class _Forked:
    """A process that the zygote forked. The kernel says when it has ended, its parent how."""

    def __init__(self, zygote: Zygote, parent: subprocess.Popen[bytes], pid: int) -> None:
        self._zygote = zygote
        self._parent = parent
        self._pid = pid
        self._returncode: int | None = None
        self._reaping = threading.Lock()
        self._pidfd = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._pidfd)  # not earlier: another thread may be waiting for it

    @property
    def pid(self) -> int:
        return self._pid

    def poll(self) -> int | None:
        return self._code_within(0.0)

    def wait(self, timeout: float) -> int:
        """Raises subprocess.TimeoutExpired."""
        code = self._code_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["workloads.client"], timeout)
        return code

    def _code_within(self, seconds: float) -> int | None:
        if self._returncode is None and is_readable(self._pidfd, seconds):
            with self._reaping:
                if self._returncode is None:
                    self._returncode = self._zygote.reap(self._parent, self._pid)
        return self._returncode
