"""What faults on links share: words for a set of links, healing every one, and the proof that bytes pass again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from cluster.address import ProbeResult
from cluster.base import Direction, Impairment
from fencepost.history import Impact
from nemesis.base import Evidence, World, hitting

LinkName = tuple[str, str]
Results = dict[LinkName, ProbeResult]

PROBE_TIMEOUT_MS = 100.0
RETRY_FOR_S = 2.0
"""Hundreds of links on a busy machine answer late; a link that never does is known to be silent after this time."""
DIRECTIONS: tuple[Direction, ...] = ("to-node", "from-node", "both")
WAYS: dict[Direction, str] = {"both": "both ways", "to-node": "to the nodes", "from-node": "from the nodes"}


def in_words(links: Iterable[LinkName]) -> str:
    """`c1,c2 | n3; c4-c9 | n1,n3`: clients that share a set of nodes are named together."""
    nodes_of: dict[str, list[str]] = {}
    for client, node in links:
        nodes_of.setdefault(client, []).append(node)
    clients_of: dict[tuple[str, ...], list[str]] = {}
    for client, nodes in nodes_of.items():
        clients_of.setdefault(tuple(nodes), []).append(client)
    return "; ".join(f"{names_in_words(clients)} | {','.join(nodes)}" for nodes, clients in clients_of.items())


def names_in_words(names: Sequence[str]) -> str:
    """`c1,c3-c6,c9`: three names or more whose numbers follow each other are a range."""
    runs: list[list[str]] = []
    for name in names:
        follows = runs and _number(name) is not None and _number(name) == (_number(runs[-1][-1]) or 0) + 1
        runs[-1].append(name) if follows else runs.append([name])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run) for run in runs)


def _number(name: str) -> int | None:
    return int(name[1:]) if name[1:].isdigit() else None


def probe_until(
    world: World,
    links: Sequence[LinkName],
    good: Callable[[LinkName, ProbeResult], bool],
    timeout_ms: float,
    retry_for_s: float,
) -> tuple[Results, list[LinkName]]:
    """Probe the links until every result is good, for about `retry_for_s` beyond the first try, unless the run is out
    of time; what was good once is not asked again, and each try waits twice as long as the one before, up to
    `retry_for_s`. Returns each link's last result, and the links that never were good."""
    results: Results = {}
    longest_ms = max(timeout_ms, retry_for_s * 1000)
    pending = list(links)
    deadline = time.monotonic() + retry_for_s
    while pending:
        results |= world.cluster.probe(pending, timeout_ms)
        pending = [link for link in pending if not good(link, results[link])]
        if time.monotonic() > deadline or world.out_of_time():
            break
        timeout_ms = min(2 * timeout_ms, longest_ms)
    return results, pending


def impair_links(world: World, owner: str, links: Sequence[LinkName], impairment: Impairment, impact: Impact) -> Impact:
    """Impair every one of the links; returns the impact. Raises LateError if that was not done in time."""
    with hitting(impact):
        world.cluster.impair(links, owner, impairment, world.called_off)
    return impact


class SharedLinks:
    """Which links another fault impairs as well as this one. Faults come and go while a link is probed, so a link whose
    probe shows something else than planned is looked at again."""

    def __init__(self, world: World, links: Iterable[LinkName]) -> None:
        self._world = world
        self.links = {link for link in links if self._is_shared(link)}

    def __contains__(self, link: LinkName) -> bool:
        if link not in self.links and self._is_shared(link):
            self.links.add(link)
        return link in self.links

    def _is_shared(self, link: LinkName) -> bool:
        return len(self._world.cluster.links[link].owners()) > 1


def heal_links(world: World, owner: str, links: Sequence[LinkName]) -> Evidence:
    """Heal every link of this owner, and prove by probes that each answers again, or say what else keeps it from
    answering. Raises NotInTimeError if they were not healed in time."""
    world.cluster.restore(links, owner, world.called_off)

    def explained(link: LinkName, result: ProbeResult) -> bool:
        return result.answered or result.applied is None or bool(world.cluster.links[link].owners())

    results, silent = probe_until(world, links, explained, PROBE_TIMEOUT_MS, RETRY_FOR_S)
    answering = sum(result.answered for result in results.values())
    words = [f"{answering} of {len(links)} links answer again"]
    out = sorted({node for (_, node), result in results.items() if not result.answered and result.applied is None})
    if out:
        words.append(f"{','.join(out)} out of service")
    others = [
        link
        for link, result in results.items()
        if not result.answered and result.applied is not None and link not in silent
    ]
    if others:
        words.append(f"removed, but still impaired by another fault: {in_words(others)}")
    if silent:
        words.append(f"still silent: {in_words(silent)}")
    leftover = [link for link in links if owner in world.cluster.links[link].owners()]
    if leftover:
        words.append(f"not removed: {in_words(leftover)}")
    return Evidence(holds=not silent and not leftover, seen="; ".join(words))
