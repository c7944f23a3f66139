"""Links through a real Toxiproxy: its HTTP API, and what a cut, a delay or a reset is made of there.

The API is spoken through `toxiproxy-python`, mended: there host and port belong to the class (one server a process),
no call has a time limit, a 5xx passes silently, and populate is a loop that drops live connections. Here each server
has a consumer of its own over one kept-alive connection, every status is checked, one call makes all proxies, and
every change is read back.

What an impairment is made of (Toxiproxy 2.12, measured):

    refuse, both ways    enabled: false, until the last owner that refuses heals
    refuse, one way      reset_peer in that direction: fires as soon as a byte travels that way
    drop                 timeout 0: swallows the bytes; removing it closes the connections
    hold                 latency of 1e8 ms: keeps the bytes; removing it lets them out at once (about 1 ms)
    delay, throttle      latency with jitter, bandwidth
    reset                reset_peer both ways: an RST for connections made later, an end of file for those open before

Toxicity is always 1: every random number is drawn by the schedule, not by the proxy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import requests
from toxiproxy.api import APIConsumer, validate_response
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
from toxiproxy.toxic import Toxic

from cluster.base import Address, CutKind, Direction
from cluster.waiting import becomes_true
from fencepost.errors import BrokenEnvironmentError, InternalError

Stream = Literal["upstream", "downstream"]
LinkKey = tuple[str, str]

_STREAMS: Mapping[Direction, tuple[Stream, ...]] = {
    "to-node": ("upstream",),
    "from-node": ("downstream",),
    "both": ("upstream", "downstream"),
}
_HOLD_MS = 100_000_000
_LETTING_GO: Mapping[str, tuple[tuple[str, int], ...]] = {
    "latency": (("jitter", 0), ("latency", 0)),
    "bandwidth": (("rate", 1_000_000_000),),
}
"""The attributes with which a toxic that keeps bytes back keeps none."""
_SETTLED_S = 0.05
"""After this time without effect a toxic can be removed; what its dead connections had queued is long gone."""
_API_TIMEOUT_S = 5.0


class ToxicSpec(NamedTuple):
    """One toxic as it is asked for and as it is read back."""

    type: str
    stream: Stream
    attributes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ProxyState:
    """One proxy as the server describes it; toxics by name."""

    listen: Address
    upstream: Address
    enabled: bool
    toxics: Mapping[str, ToxicSpec]


class _Consumer(APIConsumer):  # type: ignore[misc]
    """The library's consumer for *one* server: a connection that is kept, a time limit, and no status unchecked."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._base = f"http://{address}"
        self._address = address
        self._timeout_s = timeout_s
        self._one_at_a_time = threading.Lock()
        self._session = requests.Session()
        self._session.trust_env = False  # HTTP_PROXY must not carry calls to loopback

    def get(self, url: str, params: Any = None, **kwargs: Any) -> Any:
        return self._call("GET", url, params=params, **kwargs)

    def delete(self, url: str, **kwargs: Any) -> Any:
        return self._call("DELETE", url, **kwargs)

    def post(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Any:
        return self._call("POST", url, data=data, json=json, **kwargs)

    def close(self) -> None:
        self._session.close()

    def _call(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        """The checked response. Raises BrokenEnvironmentError for anything but success."""
        try:
            with self._one_at_a_time:
                response = self._session.request(method, self._base + url, timeout=self._timeout_s, **kwargs)
            validate_response(response)
        except requests.RequestException as error:
            reason = type(error).__name__
            raise BrokenEnvironmentError(
                f"Toxiproxy at {self._address} does not answer {method} {url}: {reason}"
            ) from None
        except (ProxyExists, NotFound, InvalidToxic):
            pass  # told below in one line with the other statuses
        if response.status_code >= 300:
            raise BrokenEnvironmentError(
                f"Toxiproxy at {self._address} answered {method} {url} with {response.status_code}: {_reason(response)}"
            )
        return response


class ToxiproxyServer:
    """One running Toxiproxy, by the address of its API."""

    def __init__(self, address: Address, timeout_s: float = _API_TIMEOUT_S) -> None:
        self.address = address
        self._api = _Consumer(address, timeout_s)

    def wait_until_up(self, is_running: Callable[[], bool], within_s: float) -> None:
        """Wait until the API answers. Raises BrokenEnvironmentError if it does not, or once `is_running()` is false."""
        if not becomes_true(lambda: not is_running() or self._answers(), within_s=within_s):
            raise BrokenEnvironmentError(f"toxiproxy-server at {self.address} does not answer; its log says why")
        if not is_running():
            raise BrokenEnvironmentError(f"toxiproxy-server at {self.address} ended at once; its log says why")

    def populate(self, wanted: Mapping[LinkKey, tuple[Address, Address]]) -> dict[LinkKey, ToxicLink]:
        """Make all proxies in one call, each (listen, upstream); the links by (client, node).

        A listen port of 0 leaves the choice to the kernel. Raises BrokenEnvironmentError, also if the server's
        answer is not what was asked for.
        """
        asked = [
            {"name": _proxy_name(key), "listen": str(listen), "upstream": str(upstream), "enabled": True}
            for key, (listen, upstream) in wanted.items()
        ]
        made = {
            proxy["name"]: _proxy_state(proxy) for proxy in self._api.post("/populate", json=asked).json()["proxies"]
        }
        links: dict[LinkKey, ToxicLink] = {}
        for key, (listen, upstream) in wanted.items():
            state = made.get(_proxy_name(key))
            fits = (
                state is not None
                and state.enabled
                and not state.toxics
                and state.upstream == upstream
                and state.listen.host == listen.host
                and listen.port in (0, state.listen.port)
            )
            if state is None or not fits:
                raise BrokenEnvironmentError(
                    f"Toxiproxy made {state} of the link {key}, asked was {listen} to {upstream}"
                )
            links[key] = ToxicLink(self, key, state.listen)
        return links

    def proxy(self, name: str) -> ProxyState:
        """The proxy as it is now."""
        return _proxy_state(self._api.get(_path(name)).json())

    def proxies(self) -> dict[str, ProxyState]:
        """All proxies as they are now."""
        return {name: _proxy_state(proxy) for name, proxy in self._api.get("/proxies").json().items()}

    def set_enabled(self, name: str, enabled: bool) -> None:
        self._api.post(_path(name), json={"enabled": enabled})

    def add_toxic(self, proxy: str, name: str, spec: ToxicSpec) -> None:
        self._api.post(
            f"{_path(proxy)}/toxics",
            json={
                "name": name,
                "type": spec.type,
                "stream": spec.stream,
                "toxicity": 1.0,
                "attributes": dict(spec.attributes),
            },
        )

    def update_toxic(self, proxy: str, name: str, spec: ToxicSpec) -> None:
        self._api.post(
            f"{_path(proxy)}/toxics/{quote(name, safe='')}", json={"toxicity": 1.0, "attributes": dict(spec.attributes)}
        )

    def remove_toxic(self, proxy: str, name: str) -> None:
        self._api.delete(f"{_path(proxy)}/toxics/{quote(name, safe='')}")

    def heal_all(self, links: Iterable[ToxicLink]) -> None:
        """Remove everything from every proxy, whoever owns it, and read back that nothing is left.

        Heals as much as can be healed before it raises BrokenEnvironmentError for what cannot.
        """
        links = list(links)
        problems: list[str] = []
        states = self.proxies()
        held = [link for link in links if states[link.proxy_name].toxics]
        for link in held:
            link.let_everything_go()
        time.sleep(_SETTLED_S if held else 0)
        try:
            self._api.post("/reset")
        except BrokenEnvironmentError as error:
            # The server stops at the first proxy that it cannot enable; the others must not stay cut for it.
            problems.append(str(error))
            for link in links:
                try:
                    link.heal_everyone()
                except BrokenEnvironmentError as link_error:
                    problems.append(str(link_error))
            if len(problems) > 1:
                raise BrokenEnvironmentError(problems[1]) from error
        states = self.proxies()
        for link in links:
            state = states.get(link.proxy_name)
            if state is None or not state.enabled or state.toxics or state.listen != link.address:
                raise BrokenEnvironmentError(f"link {link.client} to {link.node} was healed but reads back as {state}")
            link.forget_owners()

    def close(self) -> None:
        """Let go of the connection to the API."""
        self._api.close()

    def _answers(self) -> bool:
        try:
            self._api.get("/version")
        except BrokenEnvironmentError:
            return False
        return True


class ToxicLink:
    """`cluster.base.Link` on one proxy. Toxics are named `<owner>:<type>:<stream>`, so the server itself knows whose
    they are; only who refuses is kept here."""

    def __init__(self, server: ToxiproxyServer, key: LinkKey, address: Address) -> None:
        self._server = server
        self._client, self._node = key
        self._address = address
        self._refusers: set[str] = set()
        self._inert_since: dict[str, float] = {}
        self._changing = threading.RLock()

    @property
    def client(self) -> str:
        return self._client

    @property
    def node(self) -> str:
        return self._node

    @property
    def address(self) -> Address:
        return self._address

    @property
    def proxy_name(self) -> str:
        return _proxy_name((self._client, self._node))

    def cut(self, owner: str, kind: CutKind, direction: Direction) -> None:
        match kind:
            case "refuse" if direction == "both":
                self._impair(owner, refuse=True)
            case "refuse":
                self._impair(owner, _toxics("reset_peer", direction, timeout=0))
            case "drop":
                self._impair(owner, _toxics("timeout", direction, timeout=0))
            case "hold":
                self._impair(owner, _toxics("latency", direction, latency=_HOLD_MS, jitter=0))

    def delay(self, owner: str, delay_ms: int, jitter_ms: int, direction: Direction) -> None:
        self._impair(owner, _toxics("latency", direction, latency=delay_ms, jitter=jitter_ms))

    def throttle(self, owner: str, rate_kb_per_s: int, direction: Direction) -> None:
        self._impair(owner, _toxics("bandwidth", direction, rate=rate_kb_per_s))

    def reset(self, owner: str) -> None:
        self._impair(owner, _toxics("reset_peer", "both", timeout=0))

    def owners(self) -> frozenset[str]:
        with self._changing:
            toxics = self._server.proxy(self.proxy_name).toxics.keys() - self._inert_since.keys()
            return frozenset(self._refusers) | {_owner(name) for name in toxics}

    def heal(self, owner: str) -> None:
        self._impair(owner)

    def heal_everyone(self) -> None:
        """Remove what every owner did."""
        with self._changing:
            owners = {_owner(name) for name in self._server.proxy(self.proxy_name).toxics} | self._refusers
            for owner in sorted(owners):
                self._impair(owner)
            if self._inert_since:
                time.sleep(max(0.0, max(self._inert_since.values()) + _SETTLED_S - time.monotonic()))
                self._remove_inert()

    def let_everything_go(self) -> None:
        """Nothing keeps bytes back any more, whoever asked for it."""
        with self._changing:
            for name, toxic in self._server.proxy(self.proxy_name).toxics.items():
                if toxic.type in _LETTING_GO and name not in self._inert_since:
                    self._let_go(name, toxic)

    def forget_owners(self) -> None:
        """After the server itself was reset: nobody refuses any more."""
        with self._changing:
            self._refusers.clear()
            self._inert_since.clear()

    def _impair(self, owner: str, toxics: Sequence[ToxicSpec] = (), *, refuse: bool = False) -> None:
        """Make these, and nothing else, the impairments of this owner, and read back that they are.

        What is asked for again is not touched, and new toxics come before old ones go: held bytes must not slip
        through in between.
        """
        if not owner or ":" in owner or "/" in owner:
            raise InternalError(f"owner {owner!r} of an impairment must be a word without ':' and '/'")
        wanted = {f"{owner}:{toxic.type}:{toxic.stream}": toxic for toxic in toxics}
        with self._changing:
            refusers = self._refusers | {owner} if refuse else self._refusers - {owner}
            self._remove_inert()
            before = self._server.proxy(self.proxy_name)
            if refusers and before.enabled:
                self._server.set_enabled(self.proxy_name, False)
            for name, toxic in wanted.items():
                if name not in before.toxics:
                    self._server.add_toxic(self.proxy_name, name, toxic)
                elif before.toxics[name] != toxic:
                    self._server.update_toxic(self.proxy_name, name, toxic)
                    self._inert_since.pop(name, None)
            for name in before.toxics.keys() - self._inert_since.keys():
                if _owner(name) == owner and name not in wanted:
                    self._let_go(name, before.toxics[name])
            if not refusers and not before.enabled:
                self._enable()
            self._refusers = refusers
            self._read_back(owner, wanted)

    def _let_go(self, name: str, toxic: ToxicSpec) -> None:
        """Let the bytes that the toxic keeps back go; remove it at once only if it keeps none.

        Removing it at once can hang: Toxiproxy flushes what is queued while it holds the lock of the proxy, and for a
        connection that its client has closed meanwhile each chunk waits five seconds for a reader that is gone (2.12,
        `ToxicLink.RemoveToxic`). An update only wakes the toxic up, and then dead connections go by themselves.
        """
        if toxic.type in _LETTING_GO:
            self._server.update_toxic(self.proxy_name, name, _inert(toxic))
            self._inert_since[name] = time.monotonic()
        else:
            self._server.remove_toxic(self.proxy_name, name)

    def _remove_inert(self) -> None:
        """Remove what has kept no bytes back for long enough."""
        for name, since in list(self._inert_since.items()):
            if time.monotonic() - since >= _SETTLED_S:
                self._server.remove_toxic(self.proxy_name, name)
                del self._inert_since[name]

    def _enable(self) -> None:
        try:
            self._server.set_enabled(self.proxy_name, True)
        except BrokenEnvironmentError as error:
            if "address already in use" not in str(error):
                raise
            raise BrokenEnvironmentError(
                f"link {self._client} to {self._node} cannot be healed: its port {self._address.port} was taken by "
                "another program while it was refused"
            ) from error

    def _read_back(self, owner: str, wanted: Mapping[str, ToxicSpec]) -> None:
        state = self._server.proxy(self.proxy_name)
        mine = {
            name: toxic
            for name, toxic in state.toxics.items()
            if _owner(name) == owner and not (name in self._inert_since and toxic == _inert(toxic))
        }
        if mine != wanted or state.enabled == bool(self._refusers) or state.listen != self._address:
            raise BrokenEnvironmentError(
                f"link {self._client} to {self._node} reads back as {state}, wanted of {owner} were {wanted} "
                f"and enabled {not self._refusers} on {self._address}"
            )


def _inert(toxic: ToxicSpec) -> ToxicSpec:
    return toxic._replace(attributes=_LETTING_GO[toxic.type])


def _toxics(type_: str, direction: Direction, **attributes: int) -> list[ToxicSpec]:
    return [ToxicSpec(type_, stream, tuple(sorted(attributes.items()))) for stream in _STREAMS[direction]]


def _proxy_name(key: LinkKey) -> str:
    return f"{key[0]}-{key[1]}"


def _path(proxy: str) -> str:
    return f"/proxies/{quote(proxy, safe='')}"


def _owner(toxic_name: str) -> str:
    return toxic_name.partition(":")[0]


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
            toxic.name: ToxicSpec(toxic.type, toxic.stream, tuple(sorted(toxic.attributes.items()))) for toxic in toxics
        },
    )


def _reason(response: requests.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return response.text.strip()[:200] or response.reason
