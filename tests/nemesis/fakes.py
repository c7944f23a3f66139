"""A world without processes: nodes, links and clients in memory, that keep the promises of the protocols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep

from cluster.address import Address, LinkKey, ProbeResult
from cluster.base import (
    RESOURCE,
    CalledOff,
    Condition,
    Cut,
    CutKind,
    Delay,
    Direction,
    Impairment,
    NotInTimeError,
    Part,
    Reset,
    Slices,
    Throttle,
    never,
)
from cluster.server import Holdings, Lifetimes, Refusal, Server
from cluster.servers.redis import SERVER as REDIS
from cluster.wall_clock import RIGHT, ClockAhead, ClockSetting
from fencepost.errors import BrokenEnvironmentError
from nemesis.base import Step, Topology, World
from nemesis.do_all import do_all

NOWHERE = Address("127.0.0.1", 1)


def topology(clients: int = 10, nodes: int = 5, ttl_ms: int = 1_000) -> Topology:
    return Topology(tuple(f"c{i}" for i in range(1, clients + 1)), tuple(f"n{i}" for i in range(1, nodes + 1)), ttl_ms)


@dataclass
class FakeNode:
    name: str
    calls: list[str]
    running: bool = True
    paused: bool = False
    immortal: bool = False
    has_disk: bool = True
    unasked: bool = False
    damaged: bool = False
    is_picky: bool = False
    keeps_nothing: bool = False
    refuses: Refusal | None = None
    clock: ClockSetting = RIGHT
    is_clock_stuck: bool = False
    address: Address = NOWHERE
    server: Server = REDIS

    def _note(self, verb: str) -> None:
        self.calls.append(f"{self.name}.{verb}")

    def start(self) -> None:
        self._note("start")
        if self.damaged and self.is_picky:
            raise BrokenEnvironmentError(f"{self.name} ended at once")
        self.running = True

    def stop(self) -> None:
        self._note("stop")
        self.running = self.paused = False

    def kill(self) -> None:
        self._note("kill")
        if not self.immortal:
            self.running = self.paused = False

    def cut_power(self) -> None:
        self._note("cut_power")
        if not self.has_disk:
            raise BrokenEnvironmentError(f"{self.name} has no separate disk")
        if not self.immortal:
            self.running = self.paused = False

    def refuse_writes(self, why: Refusal | None) -> None:
        self._note(f"refuse writes: {why}")
        self.refuses = why

    def write_error(self, timeout_ms: float = 200) -> str | None:
        if not self.is_up():
            return None
        return {"out of memory": "OOM", "no replicas": "NOREPLICAS", None: ""}[self.refuses]

    def truncate(self, place: int) -> str:
        self._note(f"truncate {place}")
        self.damaged = True
        return "" if self.keeps_nothing else f"dump.rdb cut at {place}"

    def forget(self) -> None:
        self._note("forget")
        self.damaged = False

    def pause(self) -> None:
        self._note("pause")
        self.paused = self.running and not self.immortal

    def resume(self) -> None:
        self._note("resume")
        self.paused = False

    def is_up(self, timeout_ms: float = 200) -> bool:
        return self.running and not self.paused

    def set_clock(self, setting: ClockSetting) -> None:
        self._note(f"clock {setting.ahead_ms:g} {setting.rate_percent:g} {setting.strobe_ms:g}")
        if not self.is_clock_stuck:
            self.clock = setting

    def clock_ahead_ms(self, timeout_ms: float = 1_000) -> ClockAhead | None:
        """A drift shows at once."""
        ahead_ms = self.clock.ahead_ms + self.clock.rate_percent
        return ClockAhead(ahead_ms - 0.1, ahead_ms + 0.1) if self.is_up() else None

    def was_taken_down(self) -> bool:
        return not self.running and not self.unasked

    def went_unasked(self) -> bool:
        return self.unasked

    def dies_unasked(self) -> None:
        self.running, self.unasked = False, True

    def condition(self, within_ms: float) -> Condition:
        return "down" if self.unasked else "as wanted"

    def effective_config(self) -> Mapping[str, str]:
        return {}

    def footprint(self) -> None:
        return None

    def log_text(self) -> str:
        return ""


@dataclass
class FakeLink:
    client: str
    node: str
    calls: list[str]
    cuts: dict[str, tuple[CutKind, Direction]] = field(default_factory=dict)
    delays: dict[str, tuple[float, Direction]] = field(default_factory=dict)
    deaf: bool = False
    stuck: bool = False
    address: Address = NOWHERE

    def _note(self, what: str) -> None:
        self.calls.append(f"{self.client}-{self.node}.{what}")

    def cut(self, owner: str, kind: CutKind, direction: Direction) -> None:
        self._note(f"cut {owner} {kind} {direction}")
        if not self.deaf:
            self.cuts[owner] = (kind, direction)

    def delay(self, owner: str, delay_ms: int, jitter_ms: int, direction: Direction) -> None:
        self._note(f"delay {owner} {delay_ms} {jitter_ms} {direction}")
        if not self.deaf:
            self.delays[owner] = (float(delay_ms), direction)

    def throttle(self, owner: str, rate_kb_per_s: int, direction: Direction) -> None:
        self._note(f"throttle {owner} {rate_kb_per_s} {direction}")
        if not self.deaf:
            self.delays[owner] = (90 / rate_kb_per_s, direction)

    def slice(self, owner: str, gap_ms: int, direction: Direction) -> None:
        self._note(f"slice {owner} {gap_ms} {direction}")
        if not self.deaf:
            self.delays[owner] = (4.0 * gap_ms, direction)

    def owners(self) -> frozenset[str]:
        return frozenset(self.cuts) | frozenset(self.delays)

    def heal(self, owner: str) -> None:
        self._note(f"heal {owner}")
        if self.stuck:
            raise BrokenEnvironmentError(f"{self.client}-{self.node} is stuck")
        self.cuts.pop(owner, None)
        self.delays.pop(owner, None)

    def probe(self, node: FakeNode, timeout_ms: float) -> ProbeResult:
        """What the promises of `CutKind` and `Direction` make of one command."""
        ways = [way for _, way in self.cuts.values()]
        there = sum(ms for ms, way in self.delays.values() if way != "from-node")
        back = sum(ms for ms, way in self.delays.values() if way != "to-node")
        arrives = all(way == "from-node" for way in ways) and there <= timeout_ms
        applied = arrives if node.is_up() else None
        refused = any(kind == "refuse" for kind, _ in self.cuts.values()) and there <= timeout_ms
        answered = not ways and there + back <= timeout_ms and node.is_up()
        return ProbeResult(answered, applied, refused, there + back + 1 if answered or refused else timeout_ms)


class FakeKeyReader:
    """Sees what the test says."""

    def __init__(self, sees: Callable[[], Holdings], left: Callable[[], Lifetimes]) -> None:
        self._sees, self._left = sees, left

    def look(self, timeout_ms: float = 30) -> Holdings:
        return self._sees()

    def lifetimes(self, timeout_ms: float = 30) -> Lifetimes:
        return self._left()

    def close(self) -> None: ...

    def __enter__(self) -> FakeKeyReader:
        return self

    def __exit__(self, *error: object) -> None: ...


@dataclass
class FakeCluster:
    """`calls` has every verb on any part, in order; `probes` which links were asked, and `waited_ms` for how long at
    most. `holds`: what the nodes hold; None if their server cannot list its keys. `left`: for how long.
    `has_arrived`: over which links something has arrived that is unread.
    `is_slow`: links cannot be changed in `patience_s`."""

    of: Topology
    calls: list[str] = field(default_factory=list)
    probes: list[tuple[tuple[str, str], ...]] = field(default_factory=list)
    waited_ms: list[float] = field(default_factory=list)
    backend: str = "fake"
    holds: Callable[[], Holdings] | None = dict
    left: Callable[[], Lifetimes] = dict
    has_arrived: Callable[[], Collection[LinkKey]] = tuple
    is_slow: bool = False
    patience_s: float = 10.0
    members: None = None

    def __post_init__(self) -> None:
        self.nodes = {name: FakeNode(name, self.calls) for name in self.of.nodes}
        self.resource = FakeNode(RESOURCE, self.calls)
        servers = (*self.of.nodes, RESOURCE)
        self.links = {(c, s): FakeLink(c, s, self.calls) for c in self.of.clients for s in servers}

    def start(self, called_off: CalledOff = never) -> None: ...

    def stop(self) -> None: ...

    def impair(
        self, links: Collection[LinkKey], owner: str, impairment: Impairment, called_off: CalledOff = never
    ) -> None:
        for link in (self.links[key] for key in links):
            match impairment:
                case Cut(kind, direction):
                    link.cut(owner, kind, direction)
                case Delay(delay_ms, jitter_ms, direction):
                    link.delay(owner, delay_ms, jitter_ms, direction)
                case Throttle(rate_kb_per_s, direction):
                    link.throttle(owner, rate_kb_per_s, direction)
                case Slices(gap_ms, direction):
                    link.slice(owner, gap_ms, direction)
                case Reset():
                    link.cut(owner, "refuse", "both")
        self._in_time("change", links, called_off)

    def restore(self, links: Collection[LinkKey], owner: str, called_off: CalledOff = never) -> None:
        self._in_time("heal", links, called_off)
        do_all(partial(self.links[key].heal, owner) for key in links)

    def _in_time(self, what: str, links: Collection[LinkKey], called_off: CalledOff) -> None:
        """A slow proxy gets nowhere, and stops trying when it is called off, or after `patience_s`."""
        if not self.is_slow:
            return
        deadline_s = monotonic() + self.patience_s
        while not called_off() and monotonic() < deadline_s:
            sleep(0.001)
        raise NotInTimeError(f"{len(links)} of {len(links)} links did not {what} in time")

    def heal(self, called_off: CalledOff = never) -> None:
        for link in self.links.values():
            link.cuts.clear()
            link.delays.clear()

    def probe(self, links: Sequence[tuple[str, str]], timeout_ms: float = 100) -> dict[tuple[str, str], ProbeResult]:
        self.probes.append(tuple(links))
        self.waited_ms.append(timeout_ms)
        servers = {**self.nodes, RESOURCE: self.resource}
        return {link: self.links[link].probe(servers[link[1]], timeout_ms) for link in links}

    def unread(self) -> Collection[LinkKey]:
        return self.has_arrived()

    def parts(self) -> Sequence[Part]:
        return [*self.nodes.values(), self.resource]

    def key_reader(self) -> FakeKeyReader | None:
        return None if self.holds is None else FakeKeyReader(self.holds, self.left)

    def environment(self) -> dict[str, object]:
        return {}


@dataclass
class FakeClient:
    """`inside`, `acquiring` and `extending` are asked every time, so that a test can let a client slip out between two
    looks."""

    name: str
    calls: list[str]
    inside: Callable[[], bool] = lambda: False
    acquiring: Callable[[], bool] = lambda: False
    extending: Callable[[], bool] = lambda: False
    alive: bool = True
    paused: bool = False
    clock: ClockSetting = RIGHT
    uses_clock: bool = True
    key: int = 1

    def keys_at(self, step: Step) -> set[int]:
        return {self.key} if self.is_at(step) else set()

    def is_at(self, step: Step) -> bool:
        there = {"inside": self.inside, "acquiring": self.acquiring, "extending": self.extending}
        return self.alive and step in there and there[step]()

    def pause(self) -> None:
        self.calls.append(f"{self.name}.pause")
        self.paused = self.alive

    def resume(self) -> None:
        self.calls.append(f"{self.name}.resume")
        self.paused = False

    def is_paused(self) -> bool:
        return self.paused

    def kill(self) -> None:
        self.calls.append(f"{self.name}.kill")
        self.alive = self.paused = False

    def restart(self) -> None:
        self.calls.append(f"{self.name}.restart")
        self.alive = True

    def is_alive(self) -> bool:
        return self.alive

    def set_clock(self, setting: ClockSetting) -> None:
        self.clock = setting

    def clock_ahead_ms(self, timeout_ms: float = 1_000) -> ClockAhead | None:
        ahead_ms = self.clock.ahead_ms + self.clock.rate_percent
        return ClockAhead(ahead_ms - 0.1, ahead_ms + 0.1) if self.uses_clock else None


@dataclass
class FakeWorld:
    """The world for a fault, and its parts as what they are, for a test to reach into."""

    of: Topology

    def __post_init__(self) -> None:
        self.cluster = FakeCluster(self.of)
        self.clients = {name: FakeClient(name, self.cluster.calls) for name in self.of.clients}
        self.world = World(self.cluster, self.clients, self.of)

    @property
    def calls(self) -> list[str]:
        return self.cluster.calls
