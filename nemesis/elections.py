"""Who leads a group of members, and how long the others take to elect another one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from cluster.parallel import at_once
from fencepost.history import Impact
from nemesis.base import World

_ASK_MS: Final = 300.0
_SERVES_MS: Final = 1_000.0
_LOOK_EVERY_S: Final = 0.02


class Election(NamedTuple):
    """`before`: who led when the fault was injected. `leader`: who else leads, `after_ms` after the fault was in force,
    which is seen a few hundredths of a second late; None if none was elected while it was awaited."""

    before: str
    leader: str | None
    after_ms: float | None

    def __str__(self) -> str:
        if self.leader is None:
            return f"{self.before} led, and no other member does yet"
        return f"{self.before} led, {self.leader} does after {(self.after_ms or 0) / 1e3:.2f} s"


def leader_of(world: World, without: Sequence[str] = ()) -> str | None:
    """Who leads, as the members say, but for some of them; None if they are not agreed, none leads, or the nodes are no
    group."""
    nodes = world.cluster.nodes
    group = next(iter(nodes.values())).server.group if nodes else None
    if group is None:
        return None
    return group.leader({name: node.address for name, node in nodes.items() if name not in without}, _ASK_MS)


def would_lose_group(world: World, names: Sequence[str]) -> bool:
    """Whether a kill of these members would leave no majority that has what the group knows, which would be lost for
    good."""
    nodes = world.cluster.nodes
    group = next(iter(nodes.values())).server.group if nodes else None
    if group is None or not group.forgets:
        return False
    whole = at_once(
        partial(group.serves, node.address, _SERVES_MS) for name, node in nodes.items() if name not in names
    )
    return sum(whole) < world.topology.majority


def await_election(
    world: World, before: str | None, impact: Impact, since_ns: int, within_ms: float
) -> Election | None:
    """What the others do if the fault hit the leader; None if it did not."""
    if before is None or before not in {*impact.nodes, *(name for pair in impact.apart for name in pair)}:
        return None
    while (leader := leader_of(world, without=[before])) is None:
        if (time.monotonic_ns() - since_ns) / 1e6 > within_ms or world.out_of_time():
            return Election(before, None, None)
        time.sleep(_LOOK_EVERY_S)
    return Election(before, leader, (time.monotonic_ns() - since_ns) / 1e6)
