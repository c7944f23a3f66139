"""Cuts between the members of one group, such as etcd's: some do not hear some others. Links of clients stay.

`hold`: what is sent is dropped, and comes late or not at all. `refuse`: it is answered with a reset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, Literal

import msgspec

from cluster.member_network import MemberCut, MemberNetwork, Pair, Seen
from fencepost.errors import InternalError, UsageError
from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, Needs, TargetFields, Targets, Topology, World
from nemesis.partition_shapes import spare
from nemesis.random_draws import jittered, one_of, shuffled

KINDS: Final[tuple[MemberCut, ...]] = ("refuse", "hold")
NEEDS_A_GROUP: Final = Needs(server=frozenset({"members that talk to each other"}))
_PROBE_MS: Final = 200.0
_RETRY_FOR_S: Final = 2.0

ShapeName = Literal["any", "alone", "minority", "halves", "deaf", "mute", "bridge"]


def _apart(some: Sequence[str], others: Sequence[str]) -> tuple[Pair, ...]:
    """Neither hears the other."""
    return tuple(pair for one in some for other in others for pair in ((one, other), (other, one)))


def _alone(members: Sequence[str]) -> tuple[Pair, ...]:
    return _apart(members[:1], members[1:])


def _minority(members: Sequence[str]) -> tuple[Pair, ...]:
    count = max(1, (len(members) - 1) // 2)
    return _apart(members[:count], members[count:])


def _halves(members: Sequence[str]) -> tuple[Pair, ...]:
    return _apart(members[: len(members) // 2], members[len(members) // 2 :])


def _deaf(members: Sequence[str]) -> tuple[Pair, ...]:
    return tuple((other, members[0]) for other in members[1:])


def _mute(members: Sequence[str]) -> tuple[Pair, ...]:
    return tuple((members[0], other) for other in members[1:])


def _bridge(members: Sequence[str]) -> tuple[Pair, ...]:
    """The last member hears both sides, which do not hear each other."""
    *rest, _ = members
    return _halves(rest)


MEMBER_SHAPES: Final[Mapping[str, Callable[[Sequence[str]], tuple[Pair, ...]]]] = {
    "alone": _alone,
    "minority": _minority,
    "halves": _halves,
    "deaf": _deaf,
    "mute": _mute,
    "bridge": _bridge,
}
"""By name, who does not hear whom; the first member is the one that the shape is about."""


class MembersOptions(msgspec.Struct, frozen=True):
    """`any`: drawn anew for every cut."""

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    shape: ShapeName = "any"
    kind: Literal["any", "refuse", "hold"] = "any"


class MembersCut(TargetFields, frozen=True):
    """One cut: of each pair, the second member does not hear the first. `shape` is its name, for people."""

    shape: str
    kind: MemberCut
    pairs: tuple[Pair, ...]

    @property
    def targets(self) -> Targets:
        return Targets(nodes=tuple(dict.fromkeys(name for pair in self.pairs for name in pair)))

    def only(self, targets: Targets) -> MembersCut:
        left = tuple(pair for pair in self.pairs if {*pair} <= {*targets.nodes})
        return msgspec.structs.replace(self, shape="shrunk", pairs=left)

    @property
    def needs(self) -> Needs:
        return NEEDS_A_GROUP

    def describe(self) -> str:
        return f"{self.kind} between members ({self.shape}): {pairs_in_words(self.pairs)}"

    def inject(self, world: World, owner: str) -> Impact:
        _network(world).cut(owner, self.kind, self.pairs)
        return Impact(cut_members=self.pairs)

    def probe(self, world: World, impact: Impact) -> Evidence:
        """A message from one member to another does not arrive. A refusal is seen only where its reset comes back: not
        where the other direction is cut as well, or another fault cuts the pair."""
        network = _network(world)
        seen = network.probe(impact.cut_members, _PROBE_MS)
        wrong = [pair for pair, how in seen.items() if not self._shows(network, pair, how)]
        words = [f"{len(seen) - len(wrong)} of {len(self.pairs)} directions cut"]
        if wrong:
            words.append(f"not as planned: {', '.join(f'{a} to {b} ({seen[a, b]})' for a, b in wrong)}")
        return Evidence(not wrong, "; ".join(words))

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        network = _network(world)
        network.restore(owner)
        deadline, silent = time.monotonic() + _RETRY_FOR_S, list(self.pairs)
        while silent:
            seen = network.probe(silent, _PROBE_MS)
            silent = [pair for pair, how in seen.items() if how != "heard" and not network.owners(pair)]
            if time.monotonic() > deadline or world.out_of_time():
                break
        words = f"{len(self.pairs) - len(silent)} of {len(self.pairs)} directions open again"
        return Evidence(not silent, f"{words}; still silent: {pairs_in_words(silent)}" if silent else words)

    def _shows(self, network: MemberNetwork, pair: Pair, how: Seen) -> bool:
        is_alone = len(network.owners(pair)) == 1 and not network.owners((pair[1], pair[0]))
        return how == "refused" if self.kind == "refuse" and is_alone else how != "heard"


def pairs_in_words(pairs: Sequence[Pair]) -> str:
    """`n1 | n2; n3 does not hear n1`: both ways first."""
    both = [f"{a} | {b}" for a, b in pairs if (b, a) in pairs and a < b]
    return "; ".join([*both, *(f"{b} does not hear {a}" for a, b in pairs if (b, a) not in pairs)])


def _network(world: World) -> MemberNetwork:
    if (network := world.cluster.members) is None:
        raise InternalError("the nodes are no group, which should have been refused before the run")
    return network


class _MembersNemesis:
    name = "members"
    help = (
        "cuts the members of a group from each other: interval=4s, duration=2s, shape=any|"
        + "|".join(MEMBER_SHAPES)
        + ", kind=any|refuse|hold"
    )
    options = MembersOptions
    faults = MembersCut

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[MembersCut, int]:
        assert isinstance(options, MembersOptions)
        if spare(topology) < 1:
            raise UsageError(f"members: a group of {len(topology.nodes)} has none to spare; write --nodes 3 or more")
        duration_ms = jittered(rng, options.duration.ms(topology.ttl_ms))
        shape, kind = one_of(rng, tuple(MEMBER_SHAPES)), one_of(rng, KINDS)
        shape = shape if options.shape == "any" else options.shape
        pairs = MEMBER_SHAPES[shape](shuffled(rng, topology.nodes))
        return MembersCut(shape, kind if options.kind == "any" else options.kind, pairs), duration_ms


NEMESIS = _MembersNemesis()
