"""Who may ask: programs of this machine that know the token, and no page of another site.

Every address begins with the token, and what changes something (a run is started, stopped or tagged) is sent from a
form with a second one. A page of another site knows no address, then; and if a name of its own leads here
(DNS rebinding), the Host header has that name. Other sites are not told where they were linked
from, so the token stays here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer. A form on a page that tells no referrer is sent with `Origin: null`, so ours tell it to us."""
MOST_OF_A_FORM: Final = 64_000
"""Bytes."""
OUR_PAGE: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""The policy of the pages made here: they need no script."""
LIVE_PAGE: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The policy of the live pages: they run our own script, known by its hash, and read from this server alone."""
A_RUN_S_FILE: Final = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The policy of what is in a run's folder, which may come from any source: its scripts run as those of a site of their
own, which reads nothing here and reaches nothing anywhere."""


class Gate:
    """The token, and the addresses under which the server is known."""

    def __init__(self, token: str, port: int) -> None:
        self._token = token
        self.form_token = secrets.token_urlsafe(24)
        """In each of our forms; what changes something comes with it."""
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

    def is_our_form(self, origin: str | None, site: str | None, token: str) -> bool:
        """Whether what is to change something was sent from a form of ours. `site`: what the browser says in
        Sec-Fetch-Site, if it does."""
        is_sent_here = origin is not None and site in (None, "same-origin")
        return is_sent_here and secrets.compare_digest(token.encode(), self.form_token.encode())
