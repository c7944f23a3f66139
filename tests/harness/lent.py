"""Servers as users have them: outside of any run, with a login, and with TLS in front of them."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from cluster.polling import becomes_true
from cluster.programs import find_server

USER, PASSWORD = "app", "s3cret-pw-of-the-user"
HOST = "127.0.0.1"


class Lent:
    """A Redis of the user's, whose user `app` may touch keys of runs and no others."""

    def __init__(self, folder: Path, name: str) -> None:
        self.port = _free_port()
        self._configuration = folder / f"{name}.conf"
        self._configuration.write_text(
            f'bind {HOST}\nport {self.port}\nsave ""\nuser default on >{PASSWORD} ~* +@all\n'
            f"user {USER} on >{PASSWORD} ~*fencepost* +@all -@admin -@dangerous +info\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Lent:
        self._process = subprocess.Popen(
            [find_server("redis").path, self._configuration], stdout=subprocess.DEVNULL, start_new_session=True
        )
        assert becomes_true(self._answers, within_s=20)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def owner(self) -> redis.Redis:
        """As the one whose server it is."""
        return redis.Redis(HOST, self.port, password=PASSWORD, decode_responses=True)

    @property
    def url(self) -> str:
        return f"redis://{USER}:{PASSWORD}@{HOST}:{self.port}"

    @property
    def keys(self) -> set[str]:
        return set(self.owner.scan_iter("*"))

    def _answers(self) -> bool:
        with suppress(redis.ConnectionError):
            return bool(self.owner.ping())
        return False


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority's certificate, and that of `localhost` with its key."""
    authority, certificate, key = folder / "ca.crt", folder / "server.crt", folder / "server.key"
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    signed_by = ["-CA", authority, "-CAkey", folder / "ca.key", "-CAcreateserial", "-extfile", folder / "names"]
    for command in (
        ["req", "-x509", *new, "-keyout", folder / "ca.key", "-out", authority, "-days", "2", "-subj", "/CN=authority"],
        ["req", *new, "-keyout", key, "-out", folder / "server.csr", "-subj", "/CN=localhost"],
        ["x509", "-req", "-in", folder / "server.csr", *signed_by, "-out", certificate, "-days", "2"],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return authority, certificate, key


@contextmanager
def behind_tls(server: Lent, certificate: Path, key: Path) -> Iterator[int]:
    """The port at which the server speaks TLS: the wheels' programs are built without it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=_join, args=(context, client, server.port), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _join(context: ssl.SSLContext, client: socket.socket, port: int) -> None:
    with (
        suppress(OSError),
        context.wrap_socket(client, server_side=True) as ours,
        socket.create_connection((HOST, port)) as theirs,
    ):
        back = threading.Thread(target=_carry, args=(theirs, ours), daemon=True)
        back.start()
        _carry(ours, theirs)
        back.join()


def _carry(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while received := source.recv(1 << 16):
            to.sendall(received)
        to.shutdown(socket.SHUT_RDWR)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])
