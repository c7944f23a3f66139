"""Links through a real Toxiproxy: what a cut, a delay or a reset is made of there. Every change is read back.

What an impairment is made of (Toxiproxy 2.12, measured):

    refuse, both ways    enabled: false, until the last owner that refuses heals
    refuse, one way      reset_peer in that direction: fires as soon as a byte travels that way
    drop                 timeout 0: swallows the bytes; removing it closes the connections
    hold                 latency of 1e8 ms: keeps the bytes; healing releases them immediately (about 1 ms)
    delay, throttle      latency with jitter, bandwidth
    reset                reset_peer both ways: an RST for connections made later, an end of file for those open before

Toxicity is 1, since every random number is drawn by the schedule and not by the proxy, or 0 for what is healed.

A toxic that is healed is *retired* first, by toxicity 0, and removed a moment later, when no toxic of the proxy is in
force any more, the last of the chain first. Toxiproxy 2.12 forces this. It removes a toxic under the lock of the proxy,
and waits five seconds for each chunk that is queued for a connection whose client has gone. And where such a connection
sits in a toxic behind the one removed, its chain stays longer than the proxy's, and the next toxic that is added ends
the whole server with an index out of range (`ToxicLink.RemoveToxic` and `AddToxic` in its link.go). A retired toxic
lets bytes pass, so that the connections of clients that have gone end by themselves before anything is removed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from cluster.base import Address, CutKind, Direction, LinkKey
from cluster.ports import PortTakenError, is_listening
from cluster.toxiproxy_api import RefusedError, Stream, ToxicSpec, ToxiproxyApi
from fencepost.errors import BrokenEnvironmentError, InternalError

_STREAMS: Mapping[Direction, tuple[Stream, ...]] = {
    "to-node": ("upstream",),
    "from-node": ("downstream",),
    "both": ("upstream", "downstream"),
}
_HOLD_MS = 100_000_000
_SETTLED_S = 0.05
"""How long a retired toxic is left alone: what dead connections had queued is gone long before."""


class ToxiproxyServer(ToxiproxyApi):
    """One running Toxiproxy and the links through it."""

    def populate(self, wanted: Mapping[LinkKey, tuple[Address, Address]]) -> dict[LinkKey, ToxicLink]:
        """Make all links in one call, each (listen, upstream), by (client, node); see `create_all`."""
        made = self.create_all({_proxy_name(key): addresses for key, addresses in wanted.items()})
        return {key: ToxicLink(self, key, made[_proxy_name(key)].listen) for key in wanted}

    def heal_all(self, links: Iterable[ToxicLink]) -> None:
        """Remove everything from every proxy, regardless of its owner, and read back that nothing is left.

        Heals as much as can be healed before it raises BrokenEnvironmentError for what cannot.
        """
        links = list(links)
        impaired = {name for name, state in self.proxies().items() if state.toxics or not state.enabled}
        problems = []
        for heal in (ToxicLink.heal_everyone, ToxicLink.remove_retired):
            for link in (link for link in links if link.proxy_name in impaired):
                try:
                    heal(link)
                except BrokenEnvironmentError as error:
                    problems.append(error)
            time.sleep(_SETTLED_S if impaired else 0)
        if problems:
            raise problems[0]
        states = self.proxies()
        for link in links:
            state = states.get(link.proxy_name)
            if state is None or not state.enabled or state.toxics or state.listen != link.address:
                raise BrokenEnvironmentError(f"link {link.client} to {link.node} was healed but reads back as {state}")


class ToxicLink:
    """`cluster.base.Link` on one proxy. Toxics are named `<owner>:<type>:<stream>`, so the server itself knows whose
    they are; only who refuses is kept here."""

    def __init__(self, server: ToxiproxyServer, key: LinkKey, address: Address) -> None:
        self._server = server
        self._client, self._node = key
        self._address = address
        self._refusers: set[str] = set()
        self._retired: set[str] = set()
        self._settled_at_s = 0.0
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
            toxics = self._server.proxy(self.proxy_name).toxics.keys() - self._retired
            return frozenset(self._refusers) | {_owner(name) for name in toxics}

    def heal(self, owner: str) -> None:
        self._impair(owner)

    def heal_everyone(self) -> None:
        """Heal what every owner did."""
        with self._changing:
            for owner in sorted(self.owners()):
                self._impair(owner)
            if not self._refusers and not self._server.proxy(self.proxy_name).enabled:
                self._enable()

    def remove_retired(self) -> None:
        """Remove healed toxics, if no toxic is active and the proxy was idle for long enough."""
        with self._changing:
            if not self._retired or time.monotonic() < self._settled_at_s:
                return
            there = list(self._server.proxy(self.proxy_name).toxics)
            if self._retired.issuperset(there):
                for name in reversed(there):
                    self._server.remove_toxic(self.proxy_name, name)
                self._retired.clear()

    def _impair(self, owner: str, toxics: Sequence[ToxicSpec] = (), *, refuse: bool = False) -> None:
        """Make these, and nothing else, the impairments of this owner, and read back that they are.

        What is asked for again is not touched, and new toxics come before old ones go: held bytes must not slip
        through in between.
        """
        if not owner or ":" in owner or "/" in owner:
            raise InternalError(f"owner {owner!r} of an impairment must be a word without ':' and '/'")
        wanted = {f"{owner}:{toxic.type}:{toxic.stream}": toxic for toxic in toxics}
        with self._changing:
            self.remove_retired()
            refusers = self._refusers | {owner} if refuse else self._refusers - {owner}
            before = self._server.proxy(self.proxy_name)
            if refusers and before.enabled:
                self._server.set_enabled(self.proxy_name, False)
            for name, toxic in wanted.items():
                if name not in before.toxics:
                    self._server.add_toxic(self.proxy_name, name, toxic)
                elif before.toxics[name] != toxic:
                    self._server.update_toxic(self.proxy_name, name, toxic)
                self._retired.discard(name)
            leaving = {
                name: toxic
                for name, toxic in before.toxics.items()
                if _owner(name) == owner and name not in wanted and name not in self._retired
            }
            others = any(_owner(name) != owner and name not in self._retired for name in before.toxics)
            self._take_away(leaving, others_in_force=others)
            if not refusers and not self._server.proxy(self.proxy_name).enabled:
                self._enable()
            self._refusers = refusers
            self._read_back(owner, wanted)

    def _take_away(self, leaving: Mapping[str, ToxicSpec], *, others_in_force: bool) -> None:
        """Retire these toxics. One that swallowed bytes must not leave a connection with a hole in it behind: it is
        removed at once, which closes the connections, or they are closed by disabling the proxy for a moment."""
        for name, toxic in leaving.items():
            if toxic.type == "timeout":
                if not others_in_force:
                    self._server.remove_toxic(self.proxy_name, name)
                    continue
                self._server.set_enabled(self.proxy_name, False)
            self._server.update_toxic(self.proxy_name, name, toxic._replace(toxicity=0.0))
            self._retired.add(name)
            self._settled_at_s = time.monotonic() + _SETTLED_S

    def _enable(self) -> None:
        try:
            self._server.set_enabled(self.proxy_name, True)
        except RefusedError as error:
            if not is_listening(self._address):
                raise
            raise PortTakenError(
                f"link {self._client} to {self._node} cannot be healed: its port {self._address.port} was taken by "
                "another program while it was refused"
            ) from error

    def _read_back(self, owner: str, wanted: Mapping[str, ToxicSpec]) -> None:
        state = self._server.proxy(self.proxy_name)
        mine = {
            name: toxic
            for name, toxic in state.toxics.items()
            if _owner(name) == owner and not (name in self._retired and toxic.toxicity == 0)
        }
        if mine != wanted or state.enabled == bool(self._refusers) or state.listen != self._address:
            raise BrokenEnvironmentError(
                f"link {self._client} to {self._node} reads back as {state}, wanted of {owner} were {wanted} "
                f"and enabled {not self._refusers} on {self._address}"
            )


def _toxics(type_: str, direction: Direction, **attributes: int) -> list[ToxicSpec]:
    return [ToxicSpec(type_, stream, tuple(sorted(attributes.items()))) for stream in _STREAMS[direction]]


def _proxy_name(key: LinkKey) -> str:
    return f"{key[0]}-{key[1]}"


def _owner(toxic_name: str) -> str:
    return toxic_name.partition(":")[0]
