"""Wrong clocks: the wall clock of nodes steps, drifts, or jumps to and fro, while their servers run.

A server keeps leases by its wall clock. One that is ahead expires keys early, so that a majority can be granted twice;
one that is behind keeps them too long, which costs time. The server is told nothing; to heal means to set the clock
right, which is a step as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import ClassVar, Literal

import msgspec

from cluster.at_once import at_once
from cluster.base import Node
from cluster.server import Ability
from cluster.waiting import becomes_true
from cluster.wall_clock import RIGHT, ClockSetting
from fencepost.errors import UsageError
from fencepost.history import Impact
from fencepost.text import listed
from fencepost.units import Duration, DurationRange
from nemesis.base import Evidence, FaultClass, Topology, World
from nemesis.names import Names
from nemesis.node_down import drawn_nodes
from nemesis.random_draws import below, between, by_octaves, jittered, one_of, weighted
from nemesis.steps import not_gone

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
_CLASSES: dict[Kind, FaultClass] = {
    "step": "node clock stepped",
    "drift": "node clock drifting",
    "strobe": "node clock strobing",
}


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

    `mixed`: of five faults two steps, two drifts, one strobe.
    """

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    kind: Literal["mixed", "step", "drift", "strobe"] = "mixed"
    way: Literal["any", "ahead", "behind"] = "any"
    step: DurationRange = DurationRange(Duration(0.1, in_ttls=True), Duration(2, in_ttls=True))
    rate: Rates = Rates(LEAST_RATE, MOST_RATE)
    targets: Names | Literal["any", "one", "minority", "majority"] = "any"


class WrongClock(msgspec.Struct, frozen=True):
    """The clocks of `nodes` are ahead by `ahead_ms` (behind, if negative) and gain `rate_percent`. With `strobe_ms`
    they are ahead for so long, right for so long, and so on."""

    nodes: tuple[str, ...]
    ahead_ms: int = 0
    rate_percent: float = 0.0
    strobe_ms: int = 0

    needs_clocks: ClassVar[bool] = True
    server_needs: ClassVar[frozenset[Ability]] = frozenset({"a clock that can be read"})

    @property
    def kind(self) -> Kind:
        return "strobe" if self.strobe_ms else "drift" if self.rate_percent else "step"

    @property
    def fault_class(self) -> FaultClass:
        return _CLASSES[self.kind]

    def describe(self) -> str:
        who = f"clock of {','.join(self.nodes)}"
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
        return Impact(wrong_clocks=names, clock_off_ms=abs(self.ahead_ms), clock_rate_percent=abs(self.rate_percent))

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Every node says itself that its clock is wrong, and to which side."""
        shown = _those([world.cluster.nodes[name] for name in impact.wrong_clocks], self._shows)
        words = [f"{listed(shown)} {'says' if len(shown) == 1 else 'say'} so"] if shown else []
        if missed := [name for name in self.nodes if name not in shown]:
            words.append(f"{listed(missed)} did not show it")
        return Evidence(not missed, "; ".join(words))

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        nodes = [world.cluster.nodes[name] for name in self.nodes]
        for node in nodes:
            node.set_clock(RIGHT)
        right = _those(nodes, _may_be_right)
        words = [f"{listed(right)} right again"] if right else []
        if wrong := [name for name in self.nodes if name not in right]:
            words.append(f"{listed(wrong)} still wrong")
        return Evidence(not wrong, "; ".join(words))

    def _shows(self, node: Node) -> bool:
        """Whether the clock is certainly off, to the side to which it was set."""
        if (ahead := node.clock_ahead_ms(ASK_MS)) is None:
            return False
        return ahead.least_ms > 0 if self.ahead_ms + self.rate_percent > 0 else ahead.most_ms < 0


def _those(nodes: Sequence[Node], holds: Callable[[Node], bool]) -> list[str]:
    """The names of those for which this is soon true."""
    seen = at_once(partial(becomes_true, partial(holds, node), within_s=SEEN_WITHIN_S) for node in nodes)
    return [node.name for node, is_so in zip(nodes, seen, strict=True) if is_so]


def _may_be_right(node: Node) -> bool:
    """A node that does not answer has the clock that it was given when it is back."""
    ahead = node.clock_ahead_ms(ASK_MS)
    return ahead is None or ahead.may_be(0, 0)


class _ClockNemesis:
    name = "clock"
    help = (
        "the wall clocks of nodes step, drift or strobe, each node has one of its own: interval=4s, duration=2s, "
        "kind=mixed|step|drift|strobe, way=any|ahead|behind, step=0.1ttl-2ttl, rate=30 (at most, in percent) or 0.5-2, "
        "targets=any|one|minority|majority|n4,n5"
    )
    options = ClockOptions
    faults = WrongClock

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[WrongClock, int]:
        assert isinstance(options, ClockOptions)
        ttl_ms = topology.ttl_ms
        duration_ms = jittered(rng, options.duration.ms(ttl_ms))
        kind = weighted(rng, _MIXTURE) if options.kind == "mixed" else options.kind
        targets = one_of(rng, _TARGETS) if options.targets == "any" else options.targets
        nodes = drawn_nodes(rng, targets, topology)
        is_behind = options.way == "behind" or (options.way == "any" and below(rng, 2) == 1)
        sign = -1 if is_behind else 1
        if kind == "drift":
            return WrongClock(
                nodes, rate_percent=sign * round(by_octaves(rng, *msgspec.structs.astuple(options.rate)), 1)
            ), duration_ms
        ahead_ms = sign * max(1, round(by_octaves(rng, *options.step.ms(ttl_ms))))
        if kind == "step":
            return WrongClock(nodes, ahead_ms), duration_ms
        return WrongClock(nodes, ahead_ms, strobe_ms=max(2, round(between(rng, *_STROBE_TTLS) * ttl_ms))), duration_ms


_MIXTURE: dict[Kind, int] = {"step": 2, "drift": 2, "strobe": 1}
_TARGETS: Sequence[Literal["one", "minority", "majority"]] = ("one", "minority", "majority")

NEMESIS = _ClockNemesis()
