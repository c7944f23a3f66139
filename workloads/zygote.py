"""The zygote: `python -m workloads.zygote SOCKET`, a process that has imported what every client needs, and forks one
whenever it is asked to (the idea is Android's). A fork takes milliseconds, an interpreter with its imports a fifth of a
second of a processor, for each client and each of its lives.

It has one thread and runs nothing of the lock under test, so a client starts like a fresh process: its lock is imported
in it, and it has a session, a log, a priority and random numbers of its own. The zygote outlives no run, and its end
ends no client. Requests come over a Unix socket that keeps messages apart (SOCK_SEQPACKET), one at a time.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from pathlib import Path

import msgspec

from workloads import client


class Fork(msgspec.Struct, frozen=True, tag=True):
    """Fork a client with this specification; what it prints is appended to `log`."""

    spec: str
    log: str


class Reap(msgspec.Struct, frozen=True, tag=True):
    """Say how a client ended that has ended. Until it is asked for, nobody else gets its process number."""

    pid: int


class Forked(msgspec.Struct, frozen=True, tag=True):
    """The client says this itself, as the leader of a session of its own."""

    pid: int


class Reaped(msgspec.Struct, frozen=True, tag=True):
    """`code`: as `subprocess` has it, negative for a signal."""

    code: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The request could not be met."""

    why: str


Request = Fork | Reap
Reply = Forked | Reaped | Failed
MESSAGE_BYTES = 65_536
"""No message is longer."""


def main() -> int:
    """Serve until the other side closes its end; in a client, its whole life."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    asked.set_inheritable(False)
    # What is here now is everybody's: a collection in a client must not touch it, or each would get a copy of it.
    gc.collect()
    gc.freeze()
    decoder = msgspec.json.Decoder(Request)
    while request := asked.recv(MESSAGE_BYTES):
        match decoder.decode(request):
            case Fork() as fork:
                try:
                    is_client = os.fork() == 0
                except OSError as error:
                    _reply(asked, Failed(error.strerror or str(error)))
                    continue
                if is_client:
                    return _become_client(fork, asked)
            case Reap(pid):
                try:
                    _, status = os.waitpid(pid, 0)
                except ChildProcessError:
                    _reply(asked, Failed(f"process {pid} is no child of the zygote"))
                else:
                    _reply(asked, Reaped(os.waitstatus_to_exitcode(status)))
    return 0


def _become_client(fork: Fork, asked: socket.socket) -> int:
    os.setsid()
    with Path(fork.log).open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.argv = [client.__name__, fork.spec]
    _reply(asked, Forked(os.getpid()))
    asked.close()
    return client.main(sys.argv)


def _reply(asked: socket.socket, reply: Reply) -> None:
    asked.send(msgspec.json.encode(reply))


if __name__ == "__main__":
    sys.exit(main())
