"""What Toxiproxy has to be asked so that a link is impaired, or whole again: worked out on paper, and sent later.

What an impairment is made of (Toxiproxy 2.12, measured):

    refuse, both ways    enabled: false, until the last owner that refuses heals
    refuse, one way      reset_peer in that direction: fires as soon as a byte travels that way
    drop                 timeout 0: swallows the bytes; removing it closes the connections
    hold                 latency of 1e8 ms: keeps the bytes; healing releases them immediately (about 1 ms)
    delay, throttle      latency with jitter, bandwidth
    slices               slicer, in pieces of 2 ± 1 bytes: without a variation it ends the whole server (`rand.Intn(0)`)
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

from collections.abc import Mapping
from dataclasses import replace

from cluster.base import PIECE_BYTES, Cut, Delay, Direction, Impairment, Reset, Slices, Throttle
from cluster.http_batch import Request
from cluster.toxiproxy_api import ProxyState, Stream, ToxicSpec, adding, enabling, removing, updating
from fencepost.errors import InternalError

_STREAMS: Mapping[Direction, tuple[Stream, ...]] = {
    "to-node": ("upstream",),
    "from-node": ("downstream",),
    "both": ("upstream", "downstream"),
}
_HOLD_MS = 100_000_000


class ToxicPlan:
    """Requests for one proxy, in order, and what they make of it.

    Toxics are named `<owner>:<type>:<stream>`, so the server itself knows whose they are; only who refuses is kept
    here. `state`: what the proxy will be; `refusers`: who will refuse then.
    """

    def __init__(self, name: str, state: ProxyState, refusers: frozenset[str]) -> None:
        self.requests: list[Request] = []
        self.state = state
        self.refusers = refusers
        self._name = name

    def remove_retired(self) -> None:
        """Remove the toxics that were healed, if none is active."""
        if all(_is_retired(toxic) for toxic in self.state.toxics.values()):
            for name in reversed(list(self.state.toxics)):
                self._remove(name)

    def impair(self, owner: str, impairment: Impairment | None) -> None:
        """Make this, and nothing else, the impairment of this owner; None heals what it did.

        What is asked for again is not touched, and new toxics come before old ones go: held bytes must not slip
        through in between.
        """
        if not owner or ":" in owner or "/" in owner:
            raise InternalError(f"owner {owner!r} of an impairment must be a word without ':' and '/'")
        refuses = impairment == Cut("refuse", "both")
        self.refusers = self.refusers | {owner} if refuses else self.refusers - {owner}
        if self.refusers:
            self._enable(False)
        wanted = {f"{owner}:{toxic.type}:{toxic.stream}": toxic for toxic in _toxics(impairment)}
        for name, toxic in wanted.items():
            if name not in self.state.toxics:
                self.requests.append(adding(self._name, name, toxic))
                self._put(name, toxic)
            elif self.state.toxics[name] != toxic:
                self._update(name, toxic)
        active = [name for name, toxic in self.state.toxics.items() if not _is_retired(toxic)]
        others_in_force = any(owner_of(name) != owner for name in active)
        for name in active:
            if owner_of(name) == owner and name not in wanted:
                self._retire(name, others_in_force=others_in_force)
        if not self.refusers:
            self._enable(True)

    def heal_everyone(self) -> None:
        """Heal what every owner did."""
        for owner in sorted(owners(self.state, self.refusers)):
            self.impair(owner, None)
        self._enable(True)

    def _retire(self, name: str, *, others_in_force: bool) -> None:
        """One that swallowed bytes must not leave a connection with a hole in it behind: it is removed at once, which
        closes the connections, or they are closed by disabling the proxy for a moment."""
        toxic = self.state.toxics[name]
        if toxic.type == "timeout":
            if not others_in_force:
                self._remove(name)
                return
            self._enable(False)
        self._update(name, toxic._replace(toxicity=0.0))

    def _enable(self, enabled: bool) -> None:
        if self.state.enabled != enabled:
            self.requests.append(enabling(self._name, enabled))
            self.state = replace(self.state, enabled=enabled)

    def _update(self, name: str, toxic: ToxicSpec) -> None:
        self.requests.append(updating(self._name, name, toxic))
        self._put(name, toxic)

    def _remove(self, name: str) -> None:
        self.requests.append(removing(self._name, name))
        left = {other: toxic for other, toxic in self.state.toxics.items() if other != name}
        self.state = replace(self.state, toxics=left)

    def _put(self, name: str, toxic: ToxicSpec) -> None:
        self.state = replace(self.state, toxics={**self.state.toxics, name: toxic})


def owners(state: ProxyState, refusers: frozenset[str]) -> frozenset[str]:
    """Who impairs the proxy in this state."""
    return refusers | {owner_of(name) for name, toxic in state.toxics.items() if not _is_retired(toxic)}


def has_retired(state: ProxyState) -> bool:
    """Whether toxics are left that do nothing any more."""
    return any(_is_retired(toxic) for toxic in state.toxics.values())


def owner_of(toxic_name: str) -> str:
    return toxic_name.partition(":")[0]


def _is_retired(toxic: ToxicSpec) -> bool:
    return toxic.toxicity == 0


def _toxics(impairment: Impairment | None) -> list[ToxicSpec]:
    match impairment:
        case Cut("refuse", "both") | None:
            return []
        case Cut("refuse", direction):
            return _both("reset_peer", direction, timeout=0)
        case Cut("drop", direction):
            return _both("timeout", direction, timeout=0)
        case Cut(_, direction):
            return _both("latency", direction, latency=_HOLD_MS, jitter=0)
        case Delay(delay_ms, jitter_ms, direction):
            return _both("latency", direction, latency=delay_ms, jitter=jitter_ms)
        case Throttle(rate_kb_per_s, direction):
            return _both("bandwidth", direction, rate=rate_kb_per_s)
        case Slices(gap_ms, direction):
            size = PIECE_BYTES - 1
            return _both("slicer", direction, average_size=size, size_variation=1, delay=1000 * gap_ms)
        case Reset():
            return _both("reset_peer", "both", timeout=0)


def _both(type_: str, direction: Direction, **attributes: int) -> list[ToxicSpec]:
    return [ToxicSpec(type_, stream, tuple(sorted(attributes.items()))) for stream in _STREAMS[direction]]
