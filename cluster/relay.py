"""The way from a run in its sandbox to servers that are not its own, which it cannot reach otherwise.

The relay is a process outside of the sandbox (`fencepost/setup/toxiproxy/relay.go`). The run gives it listening sockets
of its own network namespace, one for each server; what dials there is joined to the server. TLS and the login end at
the relay, which alone knows the password, so the links carry plain RESP, and nothing of the run can tell it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.address import Address
from cluster.lifetime import StateFolder
from cluster.polling import is_readable
from cluster.unix_socket import dialled
from cluster.upstream import Upstream
from fencepost.errors import BrokenEnvironmentError

_FOLDER: Final = "relay"
_SOCKET: Final = "relay.sock"
_WITHIN_S: Final = 5.0
_BACKLOG: Final = 511


@contextmanager
def relay(program: Path, servers: Mapping[str, Upstream], state: StateFolder, log: Path) -> Iterator[None]:
    """The relay of a run, by its nodes' names, as long as this is entered. It ends with this process, however that
    ends. Raises BrokenEnvironmentError if it does not start, and UsageError for a host that is not known."""
    told = json.dumps([_told(name, server) for name, server in servers.items()]).encode() + b"\n"
    folder = state.path / _FOLDER
    folder.mkdir(mode=0o700)
    with log.open("ab") as words:
        process = subprocess.Popen(
            [program, "-relay", _SOCKET],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            env=os.environ | state.environment,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(told)
        process.stdin.flush()
        if not is_readable(process.stdout.fileno(), _WITHIN_S) or not process.stdout.readline():
            raise BrokenEnvironmentError(f"the relay to the servers of --nodes-at does not start; see {log}")
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _told(name: str, server: Upstream) -> Mapping[str, object]:
    host, port = server.number()
    return {
        "name": name,
        "address": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "tls": server.tls,
        "server_name": server.host,
        "ca": server.certificates,
        "login": list(server.login or ()),
    }


def hand_over(state: Path, name: str, listen: Address) -> None:
    """Have the relay of the run with this state folder serve this address, in this network namespace, for the server of
    that name. Raises BrokenEnvironmentError."""
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener,
            dialled(state / _FOLDER / _SOCKET, _WITHIN_S) as control,
        ):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(listen)
            listener.listen(_BACKLOG)
            socket.send_fds(control, [name.encode()], [listener.fileno()])
            if control.recv(1) != b"\x01":
                raise BrokenEnvironmentError(f"the relay does not serve {name}; see the run's logs/relay.log")
    except OSError as error:
        raise BrokenEnvironmentError(f"the relay to {name} does not answer: {error}") from error
