"""What kept everybody out of a lock that was free, as far as the record shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from fencepost.text import listed
from harness.history.fault_windows import longest_windows, merged

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

Kind = Literal["down", "hung", "out of reach", "stuck keys", "split votes", "said held", "wrong clock", "unknown"]
_MOST: Final = 0.5
"""What was so for more than this share of a time explains it."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`nodes`: those that were `down`, `hung` (they were there and did not answer) or `out of reach` of the clients
    (cut off or slow) for most of the time; or on which keys were stuck. `said held`: nothing was seen, but the lock
    said that somebody held it. `wrong clock`: keys may have lived longer there than the lock had asked for."""

    kind: Kind
    nodes: tuple[str, ...] = ()


def in_words(obstacle: Obstacle) -> str:
    """`n3 was hung`."""
    nodes = listed(obstacle.nodes) if obstacle.nodes else ""
    match obstacle.kind:
        case "down" | "hung" | "out of reach":
            return f"{nodes} {'was' if len(obstacle.nodes) == 1 else 'were'} {obstacle.kind}"
        case "wrong clock":
            return f"the {'clock' if len(obstacle.nodes) == 1 else 'clocks'} of {nodes} had been wrong"
        case "stuck keys":
            return f"keys that nobody owned were stuck on {nodes}"
        case "split votes":
            return "tries got some of the nodes, but never a majority"
        case "said held":
            return "the lock said that somebody held it"
        case "unknown":
            return "nothing is known to have been in the way, and it is not known whether requests arrived"


def find_obstacle(run: Recorded, key: str, clients: Sequence[str], since_ns: int, until_ns: int) -> Obstacle:
    """`clients` tried for the key all this time."""
    if wrong := run.wrong_clocks.nodes(since_ns, until_ns):
        return Obstacle("wrong clock", wrong)
    if (fault := _of_faults(run, clients, since_ns, until_ns)) is not None:
        return fault
    if (seen := _of_keys(run, key, since_ns, until_ns)) is not None:
        return seen
    ops = run.ops
    tries = ((ops["f"] == "acquire") & (ops["key"] == key) & (ops["outcome"] == "fail")).to_numpy(np.bool_)
    within = (ops["invoke_ns"].to_numpy(np.int64) >= since_ns) & (ops["complete_ns"].to_numpy(np.int64) <= until_ns)
    tries = tries & within
    held = int((ops["reason"][tries] == "held").sum())
    return Obstacle("said held" if held > _MOST * tries.sum() else "unknown")


def _of_faults(run: Recorded, clients: Sequence[str], since_ns: int, until_ns: int) -> Obstacle | None:
    """The nodes that were not there for most of the time."""
    by_kind: dict[Kind, list[str]] = {"hung": [], "down": [], "out of reach": []}
    for node in run.config.node_names:
        times: dict[Kind, list[tuple[int, int]]] = {kind: [] for kind in by_kind}
        for event, began, done in longest_windows(run.faults):
            if node in event.nodes:
                times["down" if event.took_nodes_down else "hung"].append((began, done))
            if all((client, node) in (*event.cut_links, *event.slow_links) for client in clients):
                times["out of reach"].append((began, done))
        for kind, windows in times.items():
            if sum(b - a for a, b in merged(windows, since_ns, until_ns)) > _MOST * (until_ns - since_ns):
                by_kind[kind].append(node)
                break
    return next((Obstacle(kind, tuple(nodes)) for kind, nodes in by_kind.items() if nodes), None)


def _of_keys(run: Recorded, key: str, since_ns: int, until_ns: int) -> Obstacle | None:
    """What the witness saw on the nodes: keys that stayed, or came and went."""
    if run.owners is None:
        return None
    holdings = run.owners.holdings
    own = holdings[(holdings["lock_key"] == key).to_numpy(np.bool_)]
    from_ns, to_ns = (own[name].to_numpy(np.int64) for name in ("from_max_ns", "to_min_ns"))
    there = np.minimum(to_ns, until_ns) - np.maximum(from_ns, since_ns)
    majority = run.config.nodes // 2 + 1
    node = own["node"].astype(str).to_numpy()
    stuck = sorted(set(node[there > _MOST * (until_ns - since_ns)]))
    if run.config.nodes - len(stuck) < majority:
        return Obstacle("stuck keys", tuple(stuck))
    came = (own["from_min_ns"].to_numpy(np.int64) >= since_ns) & (from_ns <= until_ns)
    return Obstacle("split votes") if len(set(node[came])) >= majority else None
