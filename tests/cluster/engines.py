"""Docker contexts for tests, and a second way to the engine of this machine: a socket whose connections are passed on,
so that a test can see who was asked."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.engine_address import Engine
from cluster.unix_socket import dialled


def write_context(config: Path, name: str, host: str, *, tls: Path | None = None, skip_verify: bool = False) -> None:
    """Make a Docker context, as `docker context create` does. `tls`: a folder with its certificates."""
    folder = hashlib.sha256(name.encode()).hexdigest()
    meta = config / "contexts/meta" / folder
    meta.mkdir(parents=True, exist_ok=True)
    endpoints = {"docker": {"Host": host, "SkipTLSVerify": skip_verify}}
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoints}))
    if tls is not None:
        shutil.copytree(tls, config / "contexts/tls" / folder / "docker")


def use_context(config: Path, name: str) -> None:
    """What `docker context use` does."""
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.json").write_text(json.dumps({"currentContext": name}))


@contextmanager
def second_way(at: Path | tuple[str, int], engine: Engine) -> Iterator[list[str]]:
    """A Unix socket, or a host and a port, behind which the engine answers; the first lines of the requests that came
    this way."""
    asked: list[str] = []
    assert engine.socket is not None, "the engine of these tests has to listen at a Unix socket"
    with socket.socket(socket.AF_UNIX if isinstance(at, Path) else socket.AF_INET) as listener:
        listener.bind(str(at) if isinstance(at, Path) else at)
        listener.listen(64)
        threading.Thread(target=_pass_on_all, args=(listener, engine.socket, asked), daemon=True).start()
        yield asked
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _pass_on_all(listener: socket.socket, to: Path, asked: list[str]) -> None:
    with suppress(OSError):
        while True:
            near, _ = listener.accept()
            far = dialled(to, None)
            threading.Thread(target=_pass_on, args=(near, far, asked), daemon=True).start()
            threading.Thread(target=_pass_on, args=(far, near, None), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, asked: list[str] | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if asked is not None:
                asked.append(data.partition(b"\r\n")[0].decode(errors="replace"))
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
