"""What faults that slow links share: which links, and the proof that they are slow."""

from __future__ import annotations

from random import Random
from typing import Literal

from cluster.address import ProbeResult
from fencepost.history import Impact
from nemesis.base import Evidence, Topology, World
from nemesis.links import LinkName, Results, SharedLinks, in_words
from nemesis.names import NAMED_NODES, Names
from nemesis.partition_shapes import spare
from nemesis.random_draws import one_of, some

SMALL_MS = 2.0
"""How much earlier than planned a byte may come: timers and roundings of the proxy."""
LONGEST_PROBE_MS = 1_500.0
"""A longer delay is not awaited; that the reply did not come within this time is the evidence then."""
TRIES, EASILY_NOISE_MS = 3, 200.0
"""A busy machine can make any single reply late by some tens of milliseconds, but no reply early: a short delay must
show every time."""
LOOKS = 2
"""A link that seems quick is looked at again: when another fault changes it, Toxiproxy lets go what it holds back."""
PING_BYTES, PONG_BYTES = 14, 4
"""The least that a command and its reply weigh, which is Redis's PING: what a probe surely sends and receives."""

LinkTargets = Names | Literal["any", "one-node", "minority", "majority", "all", "one-client"]


def drawn_links(rng: Random, targets: LinkTargets, topology: Topology) -> tuple[str, tuple[LinkName, ...]]:
    """What is hit, in a word, and the links: those of the nodes that are named, of as many as `minority` is, of one
    client to all nodes; `any` draws one of these."""
    if isinstance(targets, Names):
        nodes = targets.of(topology.nodes)
        return NAMED_NODES, tuple((client, node) for client in topology.clients for node in nodes)
    what: str = targets
    if what == "any":
        what = one_of(rng, ("one-node", "minority", "majority", "all", "one-client"))
    clients, nodes = topology.clients, topology.nodes
    match what:
        case "one-node":
            nodes = some(rng, nodes, 1)
        case "minority":
            nodes = some(rng, nodes, max(1, spare(topology)))
        case "majority":
            nodes = some(rng, nodes, topology.majority)
        case "one-client":
            clients = some(rng, clients, 1)
    return what, tuple((client, node) for client in clients for node in nodes)


def probe_slow(world: World, links: tuple[LinkName, ...], impact: Impact, least_ms: float, most_ms: float) -> Evidence:
    """Every link must be as late as planned, measured through it: one small command and its reply are late by at least
    `least_ms`, and hardly more than `most_ms`. Only one that answers sooner is a miss."""
    timeout_ms = min(most_ms + 200, LONGEST_PROBE_MS)
    least_ms = min(least_ms, timeout_ms) - SMALL_MS

    shared = SharedLinks(world, impact.slow_links)

    def slow(link: LinkName, result: ProbeResult) -> bool:
        if result.elapsed_ms >= least_ms and not result.refused:
            return True
        # A node out of service, or another fault's cut, leaves only what `inject` read back.
        return not result.answered and (result.applied is None or link in shared)

    results: Results = {}
    fast = list(impact.slow_links)
    for _ in range(LOOKS):
        looked_at, fast = fast, []
        for _ in range(TRIES if least_ms < EASILY_NOISE_MS else 1):
            results |= world.cluster.probe(looked_at, timeout_ms)
            fast += [link for link in looked_at if link not in fast and not slow(link, results[link])]
        if not fast or world.out_of_time():
            break
    late = sorted(result.elapsed_ms for result in results.values() if result.answered)
    words = [f"{len(impact.slow_links) - len(fast)} of {len(links)} links slow"]
    if late:
        words.append(f"replies after {late[0]:.0f} to {late[-1]:.0f} ms")
    if len(late) < len(results):
        words.append(f"{len(results) - len(late)} without a reply in {timeout_ms:.0f} ms")
    unseen = [link for link, r in results.items() if r.refused or (r.applied is None and not r.answered)]
    if unseen:
        words.append(f"set and read back, but another fault hides it: {in_words(unseen)}")
    if fast:
        words.append(f"expected at least {least_ms:.0f} ms on {in_words(fast)}")
    return Evidence(holds=len(fast) == 0 and len(impact.slow_links) == len(links), seen="; ".join(words))
