"""The HTTP API of one Toxiproxy, used through `toxiproxy-python` 0.1.1, with fixes for its flaws.

Used as they are: `APIConsumer` as the seam through which single requests go, `validate_response` and its exceptions for
the statuses that it knows, and `Toxic` with its defaults for reading a toxic. Mended, and why:

- Host and port are attributes of the class, so a process could talk to one server only, and only over TCP. Here each
  server has a consumer of its own, over a Unix socket.
- No request has a time limit. Here each has one, and every connection error becomes one line.
- A 5xx passes silently: `enable()` on a busy port reported success. Here every status but success raises.
- `populate` is a loop on the client's side that drops live connections when an address is spelled otherwise. Here it is
  the server's own call, which creates all proxies together, and its answer is compared with the request.
- `Proxy` holds what it was told when it was made, and cannot change a toxic. Here the state is read back after each
  change, and a toxic is updated in place, which keeps the connections.
- It asks one thing after the other. Here many proxies are changed together (`cluster.http_batch`).
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from toxiproxy.api import APIConsumer, validate_response
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
from toxiproxy.toxic import Toxic

from cluster.address import Address
from cluster.base import CalledOff, never
from cluster.http_batch import Reply, Request, carry_out
from cluster.polling import becomes_true
from cluster.ports import PortTakenError, is_listening
from fencepost.errors import BrokenEnvironmentError

Stream = Literal["upstream", "downstream"]

_API_TIMEOUT_S = 5.0
_ASK_MS = 1_000.0
_VERSION = Request("GET", "/version")


class ToxicSpec(NamedTuple):
    """One toxic, as requested and as read back."""

    type: str
    stream: Stream
    attributes: tuple[tuple[str, int], ...]
    toxicity: float = 1.0


class RefusedError(BrokenEnvironmentError):
    """Toxiproxy answered this request with something but success."""

    def __init__(self, path: Path, reply: Reply) -> None:
        self.request, self.status, body = reply
        asked = f"{self.request.method} {self.request.path}"
        super().__init__(f"Toxiproxy at {path} answered {asked} with {self.status}: {_reason(body)}")


@dataclass(frozen=True, slots=True)
class ProxyState:
    """One proxy as the server describes it; toxics by name."""

    listen: Address
    upstream: Address
    enabled: bool
    toxics: Mapping[str, ToxicSpec]


class _Consumer(APIConsumer):  # type: ignore[misc]
    """The library's consumer for *one* server: over its Unix socket, with a time limit, and no status unchecked."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def get(self, url: str) -> Any:
        return self._call(Request("GET", url))

    def post(self, url: str, json: Any) -> Any:
        return self._call(Request("POST", url, json))

    def _call(self, request: Request) -> Any:
        """The JSON value of the reply; None if it has none. Raises RefusedError for any status but success,
        BrokenEnvironmentError without a reply in time."""
        try:
            (replies,) = carry_out(self._path, [[request]], self._timeout_s, never)
            if replies is None:
                raise TimeoutError(f"no reply within {self._timeout_s:g} s")
        except OSError as error:
            raise BrokenEnvironmentError(
                f"Toxiproxy at {self._path} does not answer {request.method} {request.path}: {error}"
            ) from None
        (reply,) = replies
        with suppress(ProxyExists, NotFound, InvalidToxic):  # reported below, like the other statuses
            validate_response(reply)
        if reply.status_code >= 300:
            raise RefusedError(self._path, reply)
        return json.loads(reply.content) if reply.content else None


class ToxiproxyApi:
    """One running Toxiproxy, by the Unix socket of its API."""

    def __init__(self, path: Path, timeout_s: float = _API_TIMEOUT_S) -> None:
        self._path = path
        self._api = _Consumer(path, timeout_s)

    def record(self, limit_bytes: int, secrets: Sequence[str]) -> None:
        """Begin to record what goes over the links, up to so many bytes and without these words. Raises
        BrokenEnvironmentError, and OSError if the disk is full."""
        try:
            self._api.post("/wire", json={"limit_bytes": limit_bytes, "secrets": list(secrets)})
        except RefusedError as refused:
            if refused.status == HTTPStatus.INSUFFICIENT_STORAGE:
                raise OSError(errno.ENOSPC, str(refused)) from None
            raise

    def wait_until_up(self, is_running: Callable[[], bool], within_s: float) -> None:
        """Wait until the API answers. Raises BrokenEnvironmentError if it does not, or once `is_running()` is false."""
        if not becomes_true(lambda: not is_running() or self.answers(_ASK_MS), within_s=within_s):
            raise BrokenEnvironmentError(f"Toxiproxy does not answer at {self._path}; its log says why")
        if not is_running():
            raise BrokenEnvironmentError("Toxiproxy ended at once; its log says why")

    def answers(self, within_ms: float) -> bool:
        """Whether it answers within the time."""
        try:
            (replies,) = carry_out(self._path, [[_VERSION]], within_ms / 1e3, never)
        except OSError:
            return False
        return replies is not None and replies[0].status_code < 300

    def create_all(self, wanted: Mapping[str, tuple[Address, Address]]) -> dict[str, ProxyState]:
        """Make all proxies, by name each (listen, upstream), in one call; what the server made of them.

        A listen port of 0 leaves the choice to the kernel. Raises PortTakenError if another program listens where a
        proxy should, and BrokenEnvironmentError if the server's answer does not match the request.
        """
        asked = [
            {"name": name, "listen": str(listen), "upstream": str(upstream), "enabled": True}
            for name, (listen, upstream) in wanted.items()
        ]
        try:
            answer = self._api.post("/populate", json=asked)
        except RefusedError as error:
            there = self.proxies()  # the server made them in order, up to the one that it could not make
            taken = [str(listen) for name, (listen, _) in wanted.items() if name not in there and is_listening(listen)]
            if taken:
                raise PortTakenError(f"another program listens at {', '.join(taken)}") from error
            raise
        made = {proxy["name"]: _proxy_state(proxy) for proxy in answer["proxies"]}
        for name, (listen, upstream) in wanted.items():
            state = made.get(name)
            fits = (
                state is not None
                and state.enabled
                and not state.toxics
                and state.upstream == upstream
                and state.listen.host == listen.host
                and listen.port in (0, state.listen.port)
            )
            if not fits:
                raise BrokenEnvironmentError(f"Toxiproxy made {state} of {name}, asked was {listen} to {upstream}")
        return {name: made[name] for name in wanted}

    def proxies(self) -> dict[str, ProxyState]:
        """All proxies as they are now."""
        return {name: _proxy_state(proxy) for name, proxy in self._api.get("/proxies").items()}

    def change(
        self, requests: Mapping[str, Sequence[Request]], within_s: float, called_off: CalledOff = never
    ) -> dict[str, ProxyState | RefusedError | None]:
        """Change several proxies together: the requests for each, by its name, in order.

        Returns the states that are read back afterwards; the first refusal, where there was one; and None for proxies
        that did not answer in time. Raises BrokenEnvironmentError if Toxiproxy is not there.
        """
        batches = [[*asked, Request("GET", _path(name))] for name, asked in requests.items()]
        try:
            answers = carry_out(self._path, batches, within_s, called_off)
        except OSError as error:
            raise BrokenEnvironmentError(f"Toxiproxy at {self._path} does not answer: {error}") from None
        return {name: self._read_back(replies) for name, replies in zip(requests, answers, strict=True)}

    def _read_back(self, replies: Sequence[Reply] | None) -> ProxyState | RefusedError | None:
        if replies is None:
            return None
        for reply in replies:
            if reply.status_code >= 300:
                return RefusedError(self._path, reply)
        return _proxy_state(json.loads(replies[-1].content))


def enabling(proxy: str, enabled: bool) -> Request:
    return Request("POST", _path(proxy), {"enabled": enabled})


def adding(proxy: str, name: str, spec: ToxicSpec) -> Request:
    toxic = {"name": name, "type": spec.type, "stream": spec.stream}
    return Request("POST", f"{_path(proxy)}/toxics", toxic | _settings(spec))


def updating(proxy: str, name: str, spec: ToxicSpec) -> Request:
    return Request("POST", f"{_path(proxy)}/toxics/{quote(name, safe='')}", _settings(spec))


def removing(proxy: str, name: str) -> Request:
    return Request("DELETE", f"{_path(proxy)}/toxics/{quote(name, safe='')}")


def _settings(spec: ToxicSpec) -> dict[str, object]:
    return {"toxicity": spec.toxicity, "attributes": dict(spec.attributes)}


def _path(proxy: str) -> str:
    return f"/proxies/{quote(proxy, safe='')}"


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


def _proxy_state(proxy: Mapping[str, Any]) -> ProxyState:
    toxics = [Toxic(**toxic) for toxic in proxy["toxics"]]
    return ProxyState(
        listen=_address(proxy["listen"]),
        upstream=_address(proxy["upstream"]),
        enabled=proxy["enabled"],
        toxics={
            toxic.name: ToxicSpec(toxic.type, toxic.stream, tuple(sorted(toxic.attributes.items())), toxic.toxicity)
            for toxic in toxics
        },
    )


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:200] or "it gave no reason"
