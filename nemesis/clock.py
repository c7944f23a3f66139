"""Wrong clocks: the wall clock of nodes or clients steps, drifts, or jumps to and fro, while they run.

A server keeps leases by its wall clock. One that is ahead expires keys early, so that a majority can be granted twice;
one that is behind keeps them too long, which costs time. A client whose lock measures by the wall clock believes that
its lease is longer or shorter than it is. Neither is told anything; to heal means to set the clock right, which is a
step as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Literal, Protocol

import msgspec

from cluster.parallel import at_once
from cluster.polling import becomes_true
from cluster.wall_clock import RIGHT, ClockAhead, ClockSetting
from fencepost.errors import UsageError
from fencepost.history import Impact
from fencepost.text import listed
from fencepost.units import Duration, DurationRange
from nemesis.base import Evidence, FaultClass, Needs, TargetFields, Topology, World
from nemesis.do_all import not_gone
from nemesis.names import Names
from nemesis.node_down import drawn_nodes
from nemesis.random_draws import a_few, below, between, by_octaves, jittered, one_of, weighted

SEEN_WITHIN_S = 1.0
"""How long a probe waits for a wrong clock to show: a slow drift takes a while to become visible."""
ASK_MS = 200.0
MOST_RATE = 30.0
LEAST_RATE = 1.0
"""The least that is drawn unless a range says otherwise."""
SMALLEST_RATE = 0.1
"""A slower drift does not show while a probe looks."""
_STROBE_TTLS = (0.01, 0.2)

Kind = Literal["step", "drift", "strobe"]
_OF_NODES: Mapping[Kind, FaultClass] = {
    "step": "node clock stepped",
    "drift": "node clock drifting",
    "strobe": "node clock strobing",
}
_OF_CLIENTS: Mapping[Kind, FaultClass] = {
    "step": "client clock stepped",
    "drift": "client clock drifting",
    "strobe": "client clock strobing",
}


class HasClock(Protocol):
    """A node or a client."""

    @property
    def name(self) -> str: ...

    def set_clock(self, setting: ClockSetting) -> None: ...

    def clock_ahead_ms(self, timeout_ms: float) -> ClockAhead | None: ...


class Rates(msgspec.Struct, frozen=True):
    """The rates from `low` to `high`, in percent, both included."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> Rates:
        """`0.5-2`, or `5` for what is at most that. Raises UsageError for anything else."""
        low, dash, high = text.partition("-")
        try:
            rates = cls(float(low), float(high)) if dash else cls(LEAST_RATE, float(low))
        except ValueError:
            rates = cls(0, 0)
        if not SMALLEST_RATE <= rates.low <= rates.high <= MOST_RATE:
            raise UsageError(
                f"{text!r} is not a rate from {LEAST_RATE:g} to {MOST_RATE:g} percent, nor a range of rates from "
                f"{SMALLEST_RATE:g} to {MOST_RATE:g} like 0.5-2"
            )
        return rates


class ClockOptions(msgspec.Struct, frozen=True):
    """`step`: how far a clock steps or strobes. `rate`: by how much it runs fast or slow, in percent. `way`: whether it
    is ahead (fast) or behind (slow).

    `mixed`: of five faults two steps, two drifts, one strobe. `any`: any number of nodes; `clients`: some of them.
    """

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    kind: Literal["mixed", "step", "drift", "strobe"] = "mixed"
    way: Literal["any", "ahead", "behind"] = "any"
    step: DurationRange = DurationRange(Duration(0.1, in_ttls=True), Duration(2, in_ttls=True))
    rate: Rates = Rates(LEAST_RATE, MOST_RATE)
    targets: Names | Literal["any", "one", "minority", "majority", "clients"] = "any"


class WrongClock(TargetFields, frozen=True):
    """The clocks of `nodes`, or of `clients`, are ahead by `ahead_ms` (behind, if negative) and gain `rate_percent`.
    With `strobe_ms` they are ahead for so long, right for so long, and so on."""

    nodes: tuple[str, ...] = ()
    ahead_ms: int = 0
    rate_percent: float = 0.0
    strobe_ms: int = 0
    clients: tuple[str, ...] = ()

    @property
    def needs(self) -> Needs:
        return Needs(clocks=True, server=frozenset({"a clock that can be read"} if self.nodes else ()))

    @property
    def kind(self) -> Kind:
        return "strobe" if self.strobe_ms else "drift" if self.rate_percent else "step"

    @property
    def fault_class(self) -> FaultClass:
        return (_OF_CLIENTS if self.clients else _OF_NODES)[self.kind]

    def describe(self) -> str:
        who = f"clock of {','.join(self.nodes + self.clients)}"
        if self.kind == "drift":
            return f"{who}: {abs(self.rate_percent):g} % {'fast' if self.rate_percent > 0 else 'slow'}"
        text = f"{who}: {abs(self.ahead_ms)} ms {'ahead' if self.ahead_ms > 0 else 'behind'}"
        return f"{text} every other {self.strobe_ms} ms" if self.strobe_ms else text

    def inject(self, world: World, owner: str) -> Impact:
        """A node that is down comes back with the wrong clock; one that went down without the nemesis is left alone."""
        names = not_gone(world, self.nodes)
        setting = ClockSetting(self.ahead_ms, self.rate_percent, self.strobe_ms)
        for name in names:
            world.cluster.nodes[name].set_clock(setting)
        for name in self.clients:
            world.clients[name].set_clock(setting)
        return Impact(
            wrong_clocks=names,
            wrong_client_clocks=self.clients,
            clock_off_ms=abs(self.ahead_ms),
            clock_rate_percent=abs(self.rate_percent),
        )

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Every node says itself that its clock is wrong, and to which side, and so does a process with the clock of a
        client."""
        shown = _those(_clocks(world, impact.wrong_clocks, impact.wrong_client_clocks), self._shows)
        words = [f"wrong on {listed(shown)}"] if shown else []
        if missed := [name for name in self.nodes + self.clients if name not in shown]:
            words.append(f"not seen wrong on {listed(missed)}")
        return Evidence(not missed, "; ".join(words))

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        clocks = _clocks(world, self.nodes, self.clients)
        for clock in clocks:
            clock.set_clock(RIGHT)
        right = _those(clocks, _may_be_right)
        words = [f"{listed(right)} right again"] if right else []
        if wrong := [clock.name for clock in clocks if clock.name not in right]:
            words.append(f"{listed(wrong)} still wrong")
        return Evidence(not wrong, "; ".join(words))

    def _shows(self, clock: HasClock) -> bool:
        """Whether the clock is certainly off, to the side to which it was set."""
        if (ahead := clock.clock_ahead_ms(ASK_MS)) is None:
            return False
        return ahead.least_ms > 0 if self.ahead_ms + self.rate_percent > 0 else ahead.most_ms < 0


def _clocks(world: World, nodes: Sequence[str], clients: Sequence[str]) -> list[HasClock]:
    return [*(world.cluster.nodes[name] for name in nodes), *(world.clients[name] for name in clients)]


def _those(clocks: Sequence[HasClock], holds: Callable[[HasClock], bool]) -> list[str]:
    """The names of those for which this is soon true."""
    seen = at_once(partial(becomes_true, partial(holds, clock), within_s=SEEN_WITHIN_S) for clock in clocks)
    return [clock.name for clock, is_so in zip(clocks, seen, strict=True) if is_so]


def _may_be_right(clock: HasClock) -> bool:
    """A node that does not answer has the clock that it was given when it is back."""
    ahead = clock.clock_ahead_ms(ASK_MS)
    return ahead is None or ahead.may_be(0, 0)


class _ClockNemesis:
    name = "clock"
    help = (
        "the wall clocks of nodes or clients step, drift or strobe, each has one of its own: interval=4s, duration=2s, "
        "kind=mixed|step|drift|strobe, way=any|ahead|behind, step=0.1ttl-2ttl, rate=30 (at most, in percent) or 0.5-2, "
        "targets=any|one|minority|majority|clients|n4,n5"
    )
    options = ClockOptions
    faults = WrongClock

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[WrongClock, int]:
        assert isinstance(options, ClockOptions)
        ttl_ms = topology.ttl_ms
        duration_ms = jittered(rng, options.duration.ms(ttl_ms))
        kind = weighted(rng, _MIXTURE) if options.kind == "mixed" else options.kind
        targets = one_of(rng, _TARGETS) if options.targets == "any" else options.targets
        nodes = () if targets == "clients" else drawn_nodes(rng, targets, topology)
        clients = a_few(rng, topology.clients) if targets == "clients" else ()
        is_behind = options.way == "behind" or (options.way == "any" and below(rng, 2) == 1)
        sign = -1 if is_behind else 1
        if kind == "drift":
            rate_percent = sign * round(by_octaves(rng, *msgspec.structs.astuple(options.rate)), 1)
            return WrongClock(nodes, rate_percent=rate_percent, clients=clients), duration_ms
        ahead_ms = sign * max(1, round(by_octaves(rng, *options.step.ms(ttl_ms))))
        if kind == "step":
            return WrongClock(nodes, ahead_ms, clients=clients), duration_ms
        strobe_ms = max(2, round(between(rng, *_STROBE_TTLS) * ttl_ms))
        return WrongClock(nodes, ahead_ms, strobe_ms=strobe_ms, clients=clients), duration_ms


_MIXTURE: dict[Kind, int] = {"step": 2, "drift": 2, "strobe": 1}
_TARGETS: Sequence[Literal["one", "minority", "majority"]] = ("one", "minority", "majority")

NEMESIS = _ClockNemesis()
