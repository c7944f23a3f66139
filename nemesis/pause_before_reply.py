"""Stops a client that has the lock and does not know it: a majority of the nodes holds its value, and their replies are
on their way.

That moment lasts for a fraction of a millisecond, so it is stretched: the client's replies are late by less than most
locks wait for a node. As soon as the nodes hold a value of which no client was told, the client is stopped and its
links are healed. It finds the replies when it wakes up, as if they had come in time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial

from cluster.base import Delay
from cluster.polling import becomes_true
from cluster.server import KeyReader
from fencepost.history import Impact
from nemesis.base import Client, World, hitting
from nemesis.quorum_loss import Held, holders_of

REPLIES_LATE_MS = 20
LOOK_EVERY_S = 0.000_5
TOLD_WITHIN_S = 0.03
"""A client that acquires over fast links knows it by then: if none does, the lock is the stopped client's."""


def stop_untold(world: World, owner: str, candidates: Sequence[Client], within_s: float) -> Impact:
    """Stop the first of the candidates that acquires, as soon as it has the lock, if that happens within the time.
    Raises LateError if its links were not changed in time."""
    deadline = time.monotonic() + within_s
    client = next((client for client in candidates if client.is_at("acquiring")), candidates[0])
    links = tuple((client.name, node) for node in world.topology.nodes)
    reader = world.cluster.key_reader()
    assert reader is not None, "refused before the run"
    with reader, hitting(Impact(slow_links=links, paused_clients=(client.name,))):
        world.cluster.impair(links, owner, Delay(REPLIES_LATE_MS, 0, "from-node"), world.called_off)
        try:
            is_stopped = _await_untold(world, reader, client, deadline)
        finally:
            world.cluster.restore(links, owner, world.called_off)
    return Impact(slow_links=links, paused_clients=(client.name,) if is_stopped else ())


def _await_untold(world: World, reader: KeyReader, client: Client, deadline: float) -> bool:
    """Whether the client was stopped before this time while it had the lock and did not know."""
    first_seen = dict.fromkeys(_held_by_majority(world, reader), -math.inf)
    while (now := time.monotonic()) < deadline and not world.called_off():
        held = _held_by_majority(world, reader)
        first_seen = {lock: first_seen.get(lock, now) for lock in held}
        # The previous holder may still be on its way out when the new value is first seen.
        is_new = any(now - seen < REPLIES_LATE_MS / 1000 for seen in first_seen.values())
        somebody_knows = partial(_are_known, world, len(held))
        if is_new and client.is_at("acquiring") and not somebody_knows():
            client.pause()
            if (
                client.is_at("acquiring")
                and client.is_paused()
                and not becomes_true(somebody_knows, within_s=TOLD_WITHIN_S)
            ):
                return True
            client.resume()
        world.sleep(LOOK_EVERY_S)
    return False


def _held_by_majority(world: World, reader: KeyReader) -> set[Held]:
    return {lock for lock, nodes in holders_of(reader.look()).items() if len(nodes) >= world.topology.majority}


def _are_known(world: World, locks: int) -> bool:
    """Whether at least so many clients are inside, or on their way out."""
    return sum(client.is_at("inside") or client.is_at("releasing") for client in world.clients.values()) >= locks
