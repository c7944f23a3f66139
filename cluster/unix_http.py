"""HTTP over a Unix socket, for `requests`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import ConnectionPool, HTTPConnectionPool

from cluster.unix_socket import dialled


class UnixAdapter(HTTPAdapter):
    """Sends every request to the server that listens at the socket, whatever host its URL names."""

    def __init__(self, path: Path) -> None:
        self._pool = _Pool(path)
        super().__init__()

    def get_connection_with_tls_context(self, request: PreparedRequest, *_: Any, **__: Any) -> ConnectionPool:
        return self._pool

    def request_url(self, request: PreparedRequest, proxies: Any) -> str:
        return request.path_url

    def close(self) -> None:
        self._pool.close()
        super().close()


class _Pool(HTTPConnectionPool):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", maxsize=1)
        self._path = path

    def _new_conn(self) -> HTTPConnection:
        return _SocketConnection(self._path)


class _SocketConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def _new_conn(self) -> socket.socket:
        return dialled(self._path, self.timeout)
