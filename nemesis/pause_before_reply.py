"""Stops a client that has the lock and does not know it: a majority of the nodes holds its value, and their replies are
on their way. A lock may use fewer nodes than there are, or a single one: those that hold any key count.

That moment lasts for a fraction of a millisecond, so it is stretched: replies to half of the clients are late by
less than most locks wait for a node. As soon as the nodes hold a value of which no client was told, those of them that
acquire are stopped, because any of them may have set it, and their links are healed. They find the replies when they
wake up, as if these had come in time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from cluster.base import Delay
from cluster.polling import becomes_true
from cluster.server import Holdings, KeyReader
from fencepost.history import Impact
from fencepost.quorum import quorum
from nemesis.base import Client, Step, World, hitting
from nemesis.do_all import do_all
from nemesis.links import LinkName
from nemesis.quorum_loss import Held, holders_of

REPLIES_LATE_MS = 20
LOOK_EVERY_S = 0.000_5
TOLD_WITHIN_S = 0.03
"""A client that acquires over fast links knows it by then: if none does, the lock is the stopped client's."""


def stop_untold(world: World, owner: str, candidates: Sequence[Client], within_s: float) -> Impact:
    """Stop a client that acquires as soon as it has the lock, if that happens within the time. Which one gets it is not
    known, so half of the candidates wait for late replies, and those of them that acquire are stopped together."""
    deadline = time.monotonic() + within_s
    acquiring_first = sorted(candidates, key=lambda client: not client.is_at("acquiring"))
    clients = acquiring_first[: (len(candidates) + 1) // 2]
    reader = world.cluster.key_reader()
    assert reader is not None, "refused before the run"
    with reader, late_replies(world, owner, clients) as links:
        stopped = _await_untold(world, reader, clients, deadline)
    return Impact(slow_links=links, paused_clients=stopped)


@contextmanager
def late_replies(world: World, owner: str, clients: Sequence[Client]) -> Iterator[tuple[LinkName, ...]]:
    """Replies to these clients are late, so that a step takes longer. Yields their links. Raises LateError if these
    were not changed in time."""
    links = tuple((client.name, node) for client in clients for node in world.topology.nodes)
    with hitting(Impact(slow_links=links, paused_clients=tuple(client.name for client in clients))):
        world.cluster.impair(links, owner, Delay(REPLIES_LATE_MS, 0, "from-node"), world.called_off)
        try:
            yield links
        finally:
            world.cluster.restore(links, owner, world.called_off)


def _await_untold(world: World, reader: KeyReader, clients: Sequence[Client], deadline: float) -> tuple[str, ...]:
    """The clients that were stopped before this time, while one of them had the lock and did not know."""
    used, before = _used_and_held(reader.look(), 1)
    first_seen = dict.fromkeys(before, -math.inf)
    while (now := time.monotonic()) < deadline and not world.called_off():
        also, held = _used_and_held(reader.look(), quorum(len(used)) if used else world.topology.majority)
        used |= also
        first_seen = {lock: first_seen.get(lock, now) for lock in held}
        # The previous holder may still be on its way out when the new value is first seen.
        is_new = any(now - seen < REPLIES_LATE_MS / 1000 for seen in first_seen.values())
        somebody_knows = partial(_are_known, world, len(held))
        if is_new and not somebody_knows():
            stopped = [client for client in clients if stopped_at(client, "acquiring")]
            if stopped and not becomes_true(somebody_knows, within_s=TOLD_WITHIN_S):
                return tuple(client.name for client in stopped)
            do_all(client.resume for client in stopped)
        world.sleep(LOOK_EVERY_S)
    return ()


def stopped_at(client: Client, step: Step) -> bool:
    """Stop the client if it is there now, and if it ran until now."""
    if not client.is_at(step) or client.is_paused() or not client.is_alive():
        return False
    caught = False
    try:
        client.pause()
        caught = client.is_at(step) and client.is_paused()
    finally:
        if not caught:
            client.resume()
    return caught


def _used_and_held(holdings: Holdings, majority: int) -> tuple[set[str], set[Held]]:
    """The nodes that hold any key, and the locks that so many nodes hold."""
    held = {lock for lock, nodes in holders_of(holdings).items() if len(nodes) >= majority}
    return {node for node, keys in holdings.items() if keys}, held


def _are_known(world: World, locks: int) -> bool:
    """Whether at least so many clients are inside, or on their way out."""
    return sum(client.is_at("inside") or client.is_at("releasing") for client in world.clients.values()) >= locks
