"""Servers that are not the run's own: where they are, as the user says it, and how to log in.

A password is part of neither the URL nor the value that is recorded: `Upstream.url` leaves it out.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from cluster.credentials import Login
from fencepost.errors import UsageError
from fencepost.files import read_document

PASSWORD_VARIABLE: Final = "FENCEPOST_NODES_PASSWORD"
"""The password of the servers whose URL has none."""
_STARS: Final = "***"
_FORM: Final = "write redis://host:port, or rediss://user:password@host:port for TLS and a login"
_USUAL_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_SECRET: Final = re.compile(r"(\w*://[^:@/]*:)(?:.*@|(?!\d+/?$).*)")
"""What may be the password of a URL, which may be misspelt: all from the first colon to the last @."""


class Upstream(NamedTuple):
    """One server. `host`: as the user wrote it, which its certificate must name. `ca`: the file of the authorities that
    its certificate is checked against; None: those of this machine."""

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    ca: str | None = None

    @property
    def login(self) -> Login | None:
        """How to log in. It is no part of the value: it is neither compared, nor shown, nor encoded."""
        return None

    @property
    def url(self) -> str:
        """As the user writes it, with stars for the password."""
        login = "" if self.login is None else f"{self.user or ''}:{_STARS}@"
        return f"{'rediss' if self.tls else 'redis'}://{login}{_host_in_url(self.host)}:{self.port}"

    @property
    def certificates(self) -> str:
        """The text of `ca`; empty without one. Raises UsageError if it cannot be read."""
        try:
            return "" if self.ca is None else read_document(Path(self.ca)).decode(errors="replace")
        except UsageError as error:
            raise UsageError(f"--nodes-ca {error}") from None

    def number(self) -> tuple[str, int]:
        """Where it is, by number. Raises UsageError if its name is not known."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UsageError(f"--nodes-at {self.url}: there is no host {self.host} ({error.strerror})") from None
        return str(found[0][4][0]), int(found[0][4][1])


class _WithLogin(Upstream):
    known_login: Login | None = None

    @property
    def login(self) -> Login | None:
        return self.known_login


def upstreams_in(text: str, ca: str | None = None) -> tuple[Upstream, ...]:
    """The servers of `--nodes-at`, in order. Raises UsageError for a text that names none."""
    found = tuple(_upstream(url.strip(), ca) for url in text.split(","))
    if ca is not None and not any(each.tls for each in found):
        raise UsageError("--nodes-ca is about TLS, and no URL of --nodes-at begins with rediss://")
    seen: set[tuple[str, int]] = set()
    for each in found:
        if each[:2] in seen:
            raise UsageError(f"--nodes-at names {each.host}:{each.port} twice; each node is a server of its own")
        seen.add(each[:2])
    return found


def shown(upstreams: Iterable[Upstream]) -> str:
    """The text of `--nodes-at` as it may be shown and kept."""
    return ",".join(each.url for each in upstreams)


def primary_of(host: str, port: int) -> str:
    """What to do instead of naming this sentinel."""
    return (
        "after a failover the proxy would still lead to the old primary, so name the primary that the sentinel "
        f"watches: `redis-cli -h {host} -p {port} sentinel masters` tells its ip and port"
    )


def _upstream(url: str, ca: str | None) -> Upstream:
    told = _SECRET.sub(lambda found: found[1] + _STARS + ("@" if found[0].endswith("@") else ""), url)
    try:
        parts = urlsplit(url if "://" in url else "")
        port = parts.port
    except ValueError:
        raise UsageError(f"--nodes-at {told!r}: the port is no number from 1 to 65535; {_FORM}") from None
    if parts.scheme.endswith("sentinel"):
        raise UsageError(f"--nodes-at {told!r}: {primary_of(parts.hostname or 'HOST', port or _SENTINEL_PORT)}")
    if parts.scheme not in ("redis", "rediss"):
        scheme = f"{parts.scheme}:// is not known here" if parts.scheme else "it is no URL"
        raise UsageError(f"--nodes-at {told!r}: {scheme}; {_FORM}")
    if not parts.hostname or port == 0:
        raise UsageError(f"--nodes-at {told!r}: it names no {'port' if parts.hostname else 'host'}; {_FORM}")
    if parts.path not in ("", "/", "/0"):
        raise UsageError(f"--nodes-at {told!r}: locks use database 0; leave out {parts.path}")
    if parts.query or parts.fragment:
        raise UsageError(f"--nodes-at {told!r}: nothing may follow the port; {_FORM}")
    tls = parts.scheme == "rediss"
    made = _WithLogin(parts.hostname, port or _USUAL_PORT, tls, parts.username or None, ca if tls else None)
    made.known_login = _login(told, parts)
    return made


def _login(told: str, parts: SplitResult) -> Login | None:
    password = parts.password if parts.password not in (None, "", _STARS) else None
    known = unquote(password) if password is not None else os.environ.get(PASSWORD_VARIABLE)
    if known:
        return Login(unquote(parts.username or "") or "default", known)
    if parts.username or parts.password:
        raise UsageError(f"--nodes-at {told!r}: its password is not known; write it there, or in {PASSWORD_VARIABLE}")
    return None


def _host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
