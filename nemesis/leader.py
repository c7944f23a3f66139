"""Faults of the member of a group that leads, or of others that are told by who leads, such as etcd's.

Who that is, is decided when the fault is due. What it does then is an ordinary fault, and is on record as one, so a
replay hits the same members even if another one leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, Literal

import msgspec

from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, Fault, Needs, TargetFields, Topology, Trigger, World
from nemesis.crash import Crash
from nemesis.elections import leader_of
from nemesis.members import KINDS, MEMBER_SHAPES, NEEDS_A_GROUP, MembersCut
from nemesis.partition_shapes import spare
from nemesis.pause import Pause
from nemesis.random_draws import jittered, one_of, shuffled

How = Literal["cut", "deaf", "mute", "minority", "bridge", "kill", "pause"]
_HOW: Final[tuple[How, ...]] = ("cut", "deaf", "mute", "minority", "kill", "pause")
_SHAPES: Final = {"cut": "alone", "deaf": "deaf", "mute": "mute", "minority": "minority", "bridge": "bridge"}
Aim = Literal["leader", "follower", "majority"]


class LeaderOptions(msgspec.Struct, frozen=True):
    """`majority`: as many as that, the leader among them. `any`: drawn anew for each fault."""

    interval: Duration = Duration(6_000)
    duration: Duration = Duration(3_000)
    targets: Aim = "leader"
    how: How | Literal["any"] = "any"


class Aimed(TargetFields, frozen=True):
    """One fault of those of `nodes` that `aim` means when it is due; their order decides between equals."""

    aim: Aim
    how: How
    kind: Literal["refuse", "hold"]
    nodes: tuple[str, ...]

    @property
    def needs(self) -> Needs:
        return NEEDS_A_GROUP

    def describe(self) -> str:
        return f"aim at the {self.aim} ({self.how})"

    def inject(self, world: World, owner: str) -> Impact:
        """Nothing itself: what it asks for is injected as a fault of its own."""
        return Impact()

    def probe(self, world: World, impact: Impact) -> Evidence:
        return Evidence(True, "watching who leads")

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        return Evidence(True, "watching no more")

    def observe(self, world: World) -> _Aim:
        return _Aim(self, world)


class _Aim:
    """`nemesis.base.Observer`: strikes once, as soon as the members are agreed who leads."""

    def __init__(self, aimed: Aimed, world: World) -> None:
        self._aimed = aimed
        self._world = world
        self._is_done = False

    def look(self, now_ms: float) -> Sequence[Trigger]:
        if self._is_done or (leader := leader_of(self._world)) is None:
            return ()
        self._is_done = True
        name, fault = self._fault(leader)
        return [Trigger(name, fault, None)]

    def close(self) -> None: ...

    def _fault(self, leader: str) -> tuple[str, Fault]:
        aimed = self._aimed
        followers = [name for name in aimed.nodes if name != leader]
        ordered = [*followers, leader] if aimed.aim == "follower" else [leader, *followers]
        count = self._world.topology.majority if aimed.aim == "majority" else 1
        hit = tuple(name for name in self._world.topology.nodes if name in ordered[:count])
        if aimed.how == "kill":
            return "crash", Crash(nodes=hit)
        if aimed.how == "pause":
            return "pause", Pause(nodes=hit)
        shape = _SHAPES[aimed.how]
        if aimed.aim == "majority":  # each of them alone
            pairs = [pair for name in hit for pair in MEMBER_SHAPES[shape]([name, *(o for o in ordered if o != name)])]
            return "members", MembersCut(shape, aimed.kind, tuple(dict.fromkeys(pairs)))
        return "members", MembersCut(f"{aimed.aim}, {shape}", aimed.kind, MEMBER_SHAPES[shape](ordered))


class _LeaderNemesis:
    name = "leader"
    help = (
        "hits the leader of a group, or members chosen relative to it, when the fault begins: interval=6s, "
        "duration=3s, targets=leader|follower|majority, how=any|cut|deaf|mute|minority|bridge|kill|pause"
    )
    options = LeaderOptions
    faults = Aimed

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Aimed, int]:
        assert isinstance(options, LeaderOptions)
        duration_ms = jittered(rng, options.duration.ms(topology.ttl_ms))
        how, kind = one_of(rng, _HOW), one_of(rng, KINDS)
        nodes = tuple(shuffled(rng, topology.nodes))
        if spare(topology) < 1:
            how = "kill"
        return Aimed(options.targets, how if options.how == "any" else options.how, kind, nodes), duration_ms


NEMESIS = _LeaderNemesis()
