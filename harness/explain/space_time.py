"""The space-time diagram of a finding, as data: the picture that papers draw by hand (Lamport, Time, Clocks, and the
Ordering of Events in a Distributed System, 1978).

Clients and nodes are lanes, and time runs downwards. Each request is an arrow from its client to a node, each reply one
back. Bars on the nodes say what they held of the key and who had set it; bars on the clients are their critical
sections. Whether that becomes text or an image is `harness.report`'s.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from fencepost.history import process_of, task_names
from harness.explain.explanation import Explanation
from harness.explain.lanes import KeyBar, Outage, Section, key_bars, names_on_nodes, outages_of, sections_of
from harness.explain.replies import calls_of
from harness.explain.scenes import Scene, scene_of
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.history.calls import NO_CALL
from harness.history.commands import ADD, RAISE, SET
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.store.wire import Wire
from harness.store.wire_folder import load_wire

MOST_ARROWS: Final = 24
"""A picture with more requests is no longer read, but searched."""
_MOST_CLIENTS: Final = 4
_MOST_NODES: Final = 7
"""Of more, nodes that were sent nothing are left out."""
_WIDEST: Final = 16
"""No picture has room for more nodes."""
_LEAST_RANK: Final = 4
_MOST_BARS: Final = 60
_OTHERS_KEYS: Final = "keys of other clients"
_SETTING: Final = frozenset({*SET, "SETNX", *ADD, *RAISE})


@dataclass(frozen=True, slots=True)
class Arrow:
    """A request and its reply. `during`: the call in which the client sent it (`acquire`, `release`, …), empty if it
    was in none on record. `did`: what it did to a key that another client had set: `deletes c3's key`; empty if
    nothing. `rank`: how soon it is left out, 0 last."""

    request: WireRequest
    during: str
    did: str
    rank: int

    @property
    def client(self) -> str:
        return self.request.sender

    @property
    def node(self) -> str:
        return self.request.node

    @property
    def label(self) -> str:
        """`SET k1 NX PX 500`, `DEL k1 (release)`. That a SET is for an acquire goes without saying."""
        aside = f" ({self.during})" if self.during and self.request.command not in _SETTING else ""
        return self.request.label + aside


@dataclass(frozen=True, slots=True)
class Picture:
    """`clients`, `nodes`: the lanes. `arrows`: in the order in which they were sent. `left_out`: how many more requests
    each client made meanwhile. `overlap`: from when to when two sections that exclude each other were both there.
    Requests and keys are shown until `until_ns`, sections until `to_ns`. `zero_ns`: the start of the load.
    `not_drawn`: what else is left out, in words."""

    key: str
    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    sections: tuple[Section, ...]
    bars: tuple[KeyBar, ...]
    arrows: tuple[Arrow, ...]
    outages: tuple[Outage, ...]
    left_out: tuple[tuple[str, int], ...]
    overlap: tuple[int, int] | None
    from_ns: int
    until_ns: int
    to_ns: int
    zero_ns: int
    not_drawn: tuple[str, ...] = ()

    @property
    def is_crowded(self) -> bool:
        """Whether the keys of clients that are not in the picture are what to leave out next: all requests that are
        left have changed a key, or were to."""
        are_there = any(bar.owner not in self.clients for bar in self.bars)
        return are_there and all(arrow.rank < _LEAST_RANK for arrow in self.arrows)

    def without_others(self) -> Picture:
        """The picture without the keys of clients that are not in it."""
        own = tuple(bar for bar in self.bars if bar.owner in self.clients)
        return replace(self, bars=own, not_drawn=(*self.not_drawn, _OTHERS_KEYS))

    def without_one(self) -> Picture:
        """The picture without the arrow that says least."""
        worst = max(self.arrows, key=lambda arrow: (arrow.rank, arrow.request.sent_ns))
        left = Counter(dict(self.left_out))
        left[worst.client] += 1
        return replace(
            self, arrows=tuple(a for a in self.arrows if a is not worst), left_out=tuple(sorted(left.items()))
        )


class Album:
    """The pictures of a run's explanations. The record of the links is read once, when the first one is wanted, unless
    it is there already."""

    def __init__(self, run: Recorded, folder: RunFolder, wire: Wire | None = None) -> None:
        self._run, self._folder, self._wire = run, folder, wire

    def picture(self, explanation: Explanation) -> Picture | None:
        """None if the finding names no key and no time, or there is no record of the requests then. Raises UsageError
        for a damaged record."""
        scene = scene_of(self._run, explanation)
        if scene is None or not self.has_requests:
            return None
        ends_ns = self.requests.ends_ns
        return None if ends_ns is not None and ends_ns < scene.until_ns else draw(self._run, scene, self.requests)

    @property
    def has_requests(self) -> bool:
        """Whether what clients asked the nodes is on record."""
        return bool(self.requests)

    @cached_property
    def requests(self) -> WireRequests:
        """What clients asked the nodes. Raises UsageError for a damaged record."""
        wire = load_wire(self._folder) if self._wire is None else self._wire
        return WireRequests(wire, self._run.config.node_names)


def draw(run: Recorded, scene: Scene, requests: WireRequests) -> Picture | None:
    """The picture of a scene; None if no request touched its key then."""
    keys = names_on_nodes(run, scene.key)
    bars = key_bars(run, keys, requests, scene.from_ns, scene.until_ns, scene.nodes)
    here = scene.nodes or tuple(run.config.node_names)
    found = [one for one in requests.on(keys, scene.from_ns, scene.until_ns) if one.node in here]
    clients = _clients(run, scene, found, bars)
    own = [one for one in found if one.sender in clients]
    if not own:
        return None
    changed: defaultdict[WireRequest, list[KeyBar]] = defaultdict(list)
    for bar in bars:
        for by in {bar.set_by, bar.ended_by}:
            if by is not None:
                changed[by].append(bar)
    called = _calls(run, own)
    arrows = [_arrow(scene, one, changed[one], during) for one, during in zip(own, called, strict=True)]
    chosen = _most_telling(run, scene, arrows)
    lanes = here
    if len(lanes) > _MOST_NODES:
        used = {arrow.node for arrow in chosen}
        lanes = tuple(node for node in lanes if node in used)[:_WIDEST]
        chosen = [arrow for arrow in chosen if arrow.node in lanes]
    bars, not_drawn = _few(
        [bar for bar in bars if bar.node in lanes and bar.from_ns <= scene.until_ns], clients, chosen
    )
    left = Counter(a.client for a in arrows) - Counter(a.client for a in chosen)
    return Picture(
        key=scene.key,
        clients=clients,
        nodes=lanes,
        sections=tuple(sections_of(run, scene, clients, {arrow.client for arrow in chosen if not arrow.rank})),
        bars=tuple(bars),
        arrows=tuple(chosen),
        outages=tuple(outages_of(run, (*clients, *lanes), scene.from_ns, scene.to_ns)),
        left_out=tuple(sorted(left.items())),
        overlap=scene.overlap,
        from_ns=scene.from_ns,
        until_ns=scene.until_ns,
        to_ns=scene.to_ns,
        zero_ns=run.timeline.start_ns,
        not_drawn=not_drawn,
    )


def _clients(run: Recorded, scene: Scene, requests: Sequence[WireRequest], bars: Sequence[KeyBar]) -> tuple[str, ...]:
    """The clients of the scene, and clients that deleted or overwrote a key of theirs; the ones that asked most if
    there are none. A process is one beside its tasks if it sent something for none of them."""
    clients = list(scene.clients)
    processes = set(map(process_of, clients))
    for bar in sorted(bars, key=lambda bar: -bar.to_ns):
        by = bar.ended_by
        if bar.owner in scene.clients and by is not None and by in requests and by.sender not in clients:
            clients.append(by.sender)
    if not clients:
        clients = [client for client, _ in Counter(one.sender for one in requests).most_common(_MOST_CLIENTS)]
    clients += {one.client for one in requests if one.task is None} & (processes - {*clients})
    tasks = run.config.users_per_client
    every = (name for client in run.config.client_names for name in (client, *task_names(client, tasks)))
    others = {*clients[:_MOST_CLIENTS]}.difference(scene.clients)
    return tuple([*scene.clients, *(name for name in dict.fromkeys(every) if name in others)][:_MOST_CLIENTS])


def _arrow(scene: Scene, request: WireRequest, changed: Sequence[KeyBar], during: str) -> Arrow:
    """`changed`: what it set or ended."""
    took = next((bar for bar in changed if bar.ended_by is request and _is_anothers(bar, request)), None)
    did = ""
    if took is not None:
        did = f"{'deletes' if took.ended == 'deleted' else 'overwrites'} {took.owner}'s key"
    was_asked = any(client == request.sender and since <= request.sent_ns <= to for client, since, to in scene.asked)
    if took is not None and took.owner in scene.clients:
        rank = 0
    elif was_asked and not request.is_refused:
        rank = 1
    elif any(bar.owner in scene.clients for bar in changed):
        rank = 2
    elif changed or was_asked or (request.to_client_ns is None and not request.is_refused):
        rank = 3
    else:
        rank = _LEAST_RANK
    return Arrow(request, during, did, rank)


def _is_anothers(bar: KeyBar, request: WireRequest) -> bool:
    """Whether another client had set the key. What a process sent for none of its tasks may be its owner's."""
    return bar.owner is not None and bar.owner != request.sender and process_of(bar.owner) != request.sender


def _most_telling(run: Recorded, scene: Scene, arrows: Sequence[Arrow]) -> list[Arrow]:
    """As many as a picture has room for: by rank, and those nearest to the moment that matters, or to the end of the
    outage that began then. Of requests that did nothing two rounds are enough."""

    def far_ns(arrow: Arrow) -> int:
        return min(abs(arrow.request.sent_ns - at_ns) for at_ns in (scene.moment_ns, scene.over_ns))

    near = sorted(arrows, key=lambda arrow: (arrow.rank, far_ns(arrow)))
    telling = sum(arrow.rank < _LEAST_RANK for arrow in arrows)
    most = min(MOST_ARROWS, telling + 2 * run.config.nodes)
    return sorted(near[:most], key=lambda arrow: arrow.request.sent_ns)


def _few(bars: list[KeyBar], clients: Collection[str], arrows: Sequence[Arrow]) -> tuple[list[KeyBar], tuple[str, ...]]:
    """No more bars than there is room for, and what is left out: first bars of other clients, then bars that no
    drawn request has set or ended."""
    own = [bar for bar in bars if bar.owner in clients]
    if len(bars) <= _MOST_BARS:
        return bars, ()
    if len(own) <= _MOST_BARS:
        return own, (_OTHERS_KEYS,)
    requests = [arrow.request for arrow in arrows]
    return [bar for bar in own if bar.set_by in requests or bar.ended_by in requests], ("other keys",)


def _calls(run: Recorded, requests: Sequence[WireRequest]) -> list[str]:
    """The call of its lock in which each request was sent; empty if it was in none, or that is not known."""
    if run.ledger is None:
        return [""] * len(requests)
    calls = run.ledger.calls
    found = calls_of(calls, requests)
    return [str(calls.f[call]) if is_in_call and call != NO_CALL else "" for call, is_in_call in found]
