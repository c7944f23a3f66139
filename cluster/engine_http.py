"""The Docker engine's HTTP interface, for processes that cannot wait for the SDK to load: a reaper has seconds, on a
machine that may be busy with something else, and every command sweeps when it starts. No proxy is ever asked."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from cluster.engine_address import Engine, NoEngineError
from cluster.unix_socket import dialled

CALL_S: Final = 10
"""How long the engine may take to answer."""


class EngineReply(NamedTuple):
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


def ask_engine(
    engine: Engine, method: str, path: str, query: Mapping[str, str] | None = None, *, within_s: float = CALL_S
) -> EngineReply:
    """One request over a connection of its own, in the newest version of the interface that the engine has. For any
    thread. Raises NoEngineError if there is no reply, or one that is not HTTP with JSON."""
    try:
        connection = _connection(engine, within_s)
        try:
            connection.request(method, f"{path}?{urlencode(query)}" if query else path)
            response = connection.getresponse()
            text = response.read()
            return EngineReply(response.status, json.loads(text) if text.strip() else None)
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise NoEngineError(engine, error) from error


def _connection(engine: Engine, timeout_s: float) -> HTTPConnection:
    """Raises ValueError if the engine's address is none, or there are no certificates."""
    if (socket := engine.socket) is not None:
        return _UnixConnection(socket, timeout_s)
    host, port = engine.place
    if not engine.has_tls:
        return HTTPConnection(host, port, timeout=timeout_s)
    return HTTPSConnection(host, port, timeout=timeout_s, context=_tls(Path(engine.certificates), engine.verify))


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
