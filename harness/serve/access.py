"""Who may ask: programs of this machine that know the token, and no page of another site.

Every address begins with the token. A page of another site knows no address, then; and if a name of its own leads here
(DNS rebinding), the Host header has that name. No answer says where it was linked from, so the token stays here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer."""
OUR_PAGE: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The policy of the pages made here: they need no script."""
LIVE_PAGE: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The policy of the live pages: they run our own script, known by its hash, and read from this server alone."""
A_RUN_S_FILE: Final = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The policy of what is in a run's folder, which may come from anybody: its scripts run as those of a site of their
own, which reads nothing here and reaches nothing anywhere."""


class Gate:
    """The token, and the addresses under which the server is known."""

    def __init__(self, token: str, port: int) -> None:
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    @classmethod
    def fresh(cls, port: int) -> Gate:
        return cls(secrets.token_urlsafe(24), port)

    @property
    def root(self) -> str:
        """The path that every address begins with."""
        return f"/{self._token}/"

    def has_token(self, path: str) -> bool:
        given = path.removeprefix("/").partition("/")[0]
        return secrets.compare_digest(given.encode(), self._token.encode())

    def is_ours(self, host: str, origin: str | None) -> bool:
        """Whether the request was sent to us by name, and from no other site's page."""
        return host in self._hosts and (origin is None or origin in {f"http://{name}" for name in self._hosts})
