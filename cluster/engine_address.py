"""Which Docker engine: found once for a run, the way the `docker` command finds it, and from then on handed to
everything that talks to an engine, so that a change of context in mid-run changes nothing.

In this order: DOCKER_HOST, with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH; the context that DOCKER_CONTEXT names; the
current context of `config.json` in DOCKER_CONFIG or ~/.docker; the default socket. The module imports nothing that
takes long to load, because a reaper and set-up use it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from cluster.site import Site, UnavailableError
from fencepost.setup.machine import IS_CLONE

DEFAULT_SOCKET: Final = "unix:///var/run/docker.sock"

_LOCAL, _REMOTE = ("unix", "http+unix"), ("tcp", "http", "https")


@dataclass(frozen=True, slots=True)
class Engine:
    """A Docker engine. `host`: its address as in DOCKER_HOST. `context`: the Docker context that named it; empty if
    none did. `certificates`: the folder with `ca.pem`, `cert.pem` and `key.pem` for TLS; empty for none. `verify`:
    whether the engine's own certificate is checked."""

    host: str = DEFAULT_SOCKET
    context: str = ""
    certificates: str = ""
    verify: bool = False

    def __str__(self) -> str:
        return f"{self.host} (context {self.context})" if self.context else self.host

    @property
    def is_default(self) -> bool:
        """Whether neither a variable nor a context named it."""
        return self == Engine()

    @property
    def socket(self) -> Path | None:
        """The Unix socket at which it listens; None if it has a host and a port."""
        scheme, _, rest = self.host.partition("://")
        return Path("/", rest) if scheme in _LOCAL else None

    @property
    def place(self) -> tuple[str, int]:
        """Its host and port. Raises ValueError if there is none that can be dialled."""
        scheme, _, rest = self.host.partition("://")
        if scheme == "ssh":
            raise ValueError("ssh:// leads to another machine, whose containers cannot be reached from this one")
        if scheme not in _REMOTE:
            raise ValueError(f"{scheme}:// is not supported")
        place = urlsplit(f"//{rest}")
        return place.hostname or "127.0.0.1", place.port or (2376 if self.has_tls else 2375)

    @property
    def has_tls(self) -> bool:
        return self.host.startswith("https://") or bool(self.certificates)

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which the `docker` command talks to this engine."""
        tls = {"DOCKER_CERT_PATH": self.certificates} if self.certificates else {}
        verify = {"DOCKER_TLS_VERIFY": "1"} if self.verify and tls else {}  # to `docker` an empty one is set
        return {"DOCKER_HOST": self.host, **tls, **verify}

    @property
    def site(self) -> Site:
        """Of a run whose containers it has."""
        return Site("docker", self.encode())

    @classmethod
    def of(cls, site: Site) -> Self:
        """Which has the containers of a run at this site."""
        return cls.decode(site.place)

    def encode(self) -> str:
        """As JSON, for `decode`."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        return cls(**json.loads(text))


class NoEngineError(UnavailableError):
    """No Docker engine answers. `cannot_have_runs`: there is none, or none that this user may talk to, or none that a
    run can use."""

    def __init__(self, engine: Engine, cause: BaseException) -> None:
        is_elsewhere = engine.host.startswith("ssh:")
        self.cannot_have_runs = isinstance(cause, FileNotFoundError | PermissionError) or is_elsewhere
        self.is_usual = self.cannot_have_runs and engine.is_default
        do = "start it, or " + ("`make setup-docker` on Debian as root, or " if IS_CLONE else "")
        if is_elsewhere:
            do = "name an engine of this machine, or "
        elif isinstance(cause, PermissionError):
            do = "let this user use it (usually by the group docker), or "
        super().__init__(f"no Docker engine answers at {engine} ({cause})", f"{do}use --cluster process")


class NoContextError(UnavailableError):
    """The Docker context that was asked for cannot be read, so it is not known which engine is meant."""


def find_engine(environment: Mapping[str, str] = os.environ) -> Engine:
    """The engine that the `docker` command would talk to. Raises NoContextError."""
    if host := environment.get("DOCKER_HOST"):
        verify = bool(environment.get("DOCKER_TLS_VERIFY"))
        needs_some = verify or host.startswith("https://")
        folder = environment.get("DOCKER_CERT_PATH") or (_users_folder() if needs_some else "")
        return Engine(host, "", folder, verify)
    configured = Path(environment.get("DOCKER_CONFIG") or _users_folder())
    name, named_by = environment.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        named_by = str(configured / "config.json")
        name = _entry(_read(configured / "config.json"), "currentContext", named_by)
    if name in ("", "default"):
        return Engine()
    folder = hashlib.sha256(name.encode()).hexdigest()
    meta = configured / "contexts/meta" / folder / "meta.json"
    if (told := _read(meta)) is None:
        raise NoContextError(
            f"{named_by} names the Docker context {name!r}, which does not exist",
            "choose another with `docker context use`, or use --cluster process",
        )
    endpoint = _entry(_entry(told, "Endpoints", meta, {}), "docker", meta, {})
    certificates = configured / "contexts/tls" / folder / "docker"
    return Engine(
        _entry(endpoint, "Host", meta) or DEFAULT_SOCKET,
        name,
        str(certificates) if certificates.is_dir() else "",
        not _entry(endpoint, "SkipTLSVerify", meta, False),
    )


def _users_folder() -> str:
    return os.path.expanduser("~/.docker")  # noqa: PTH111 - raises nothing for a user without a home


def _read(path: Path) -> Any:
    """The JSON in a file of Docker's; None if there is no such file. Raises NoContextError."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error


def _entry(values: Any, key: str, path: object, default: Any = "") -> Any:
    """An entry of a JSON object, or the default. Raises NoContextError if it is of another type than the default."""
    found = default if values is None else values.get(key) if isinstance(values, dict) else values
    if found is None:
        return default
    if not isinstance(found, type(default)):
        raise _unreadable(path, f"{key} is {json.dumps(found)[:40]}")
    return found


def _unreadable(path: object, why: object) -> NoContextError:
    return NoContextError(
        f"{path} does not say which Docker engine to use ({why})",
        "correct it, set DOCKER_HOST, or use --cluster process",
    )
