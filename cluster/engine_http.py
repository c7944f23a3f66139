"""The Docker engine's HTTP interface, for those who cannot wait for the SDK to load: a reaper has seconds, on a machine
that may be busy with something else, and every command sweeps when it starts.

The engine is where the SDK would look for it: DOCKER_HOST, and for a TLS connection DOCKER_TLS_VERIFY and
DOCKER_CERT_PATH.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from cluster.unix_socket import dialled
from fencepost.errors import BrokenEnvironmentError
from fencepost.setup.machine import IS_CLONE

CALL_S: Final = 10
"""How long the engine may take to answer."""


class NoEngineError(BrokenEnvironmentError):
    """No Docker engine answers. `found`: what was tried and why it failed, without what to do about it.
    `cannot_have_runs`: there is none, or none that this user may talk to, so it has nothing of this user's runs."""

    kind = "lacking"

    def __init__(self, cause: BaseException) -> None:
        self.found = f"no Docker engine answers at {engine_address()} ({cause})"
        self.cannot_have_runs = isinstance(cause, FileNotFoundError | PermissionError)
        install = "`make setup-docker` on Debian as root, or " if IS_CLONE else ""
        super().__init__(f"{self.found}; start it, or {install}use --cluster process")


class Reply(NamedTuple):
    """What the engine answered. `body`: the JSON value, or None if there is none."""

    status: int
    body: Any

    @property
    def is_success(self) -> bool:
        return self.status < 300

    @property
    def words(self) -> str:
        """Why it was refused, in one line."""
        told = self.body.get("message") if isinstance(self.body, dict) else None
        return " ".join(str(told or f"status {self.status}").split())


def engine_address() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def engine_answers() -> bool:
    """Whether a Docker engine answers within a second."""
    try:
        return ask_engine("GET", "/version", within_s=1).is_success
    except NoEngineError:
        return False


def ask_engine(method: str, path: str, query: Mapping[str, str] | None = None, *, within_s: float = CALL_S) -> Reply:
    """One request over a connection of its own, in the newest version of the interface that the engine has. For any
    thread. Raises NoEngineError if there is no reply, or one that is not HTTP with JSON."""
    try:
        connection = _connection(within_s)
        try:
            connection.request(method, f"{path}?{urlencode(query)}" if query else path)
            response = connection.getresponse()
            text = response.read()
            return Reply(response.status, json.loads(text) if text.strip() else None)
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise NoEngineError(error) from error


def _connection(timeout_s: float) -> HTTPConnection:
    """Raises ValueError if DOCKER_HOST is no address, or there are no certificates."""
    scheme, _, rest = engine_address().partition("://")
    if scheme in ("unix", "http+unix"):
        return _UnixConnection(Path("/", rest), timeout_s)
    if scheme not in ("tcp", "http", "https"):
        raise ValueError(f"{scheme}:// is not supported")
    place = urlsplit(f"//{rest}")
    host = place.hostname or "127.0.0.1"
    verify, folder = os.environ.get("DOCKER_TLS_VERIFY"), os.environ.get("DOCKER_CERT_PATH")
    if scheme != "https" and verify is None and not folder:
        return HTTPConnection(host, place.port or 2375, timeout=timeout_s)
    certificates = Path(folder) if folder else Path.home() / ".docker"
    return HTTPSConnection(host, place.port or 2376, timeout=timeout_s, context=_tls(certificates, bool(verify)))


def _tls(certificates: Path, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    except OSError as error:  # a missing certificate is not a missing engine
        raise ValueError(f"no certificates in {certificates}: {error.strerror}") from error
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path, self._timeout_s = path, timeout_s

    def connect(self) -> None:
        self.sock = dialled(self._path, self._timeout_s)
