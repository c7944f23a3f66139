"""Stops a client between two requests of one acquire: a reply has reached it, and it reads that only when it wakes up.

A lock that looks and then sets, that sets and then gives its key a time to live, or that takes its place in a queue and
then asks for it, is in that moment for a fraction of a millisecond; most of an acquire is sleep, and most requests are
refused and are the last of their try. So replies to the clients are late for a moment, by less than most locks wait
for a node. A try goes on where the lock is free: when a client that was inside leaves, or when one begins to acquire
that no other competes with. Where neither happens soon, as with many keys, any client that begins to acquire may find
its key free.

A moment later those that acquire are stopped, and those that a reply then reaches were waiting for it. The others run
on. The first request after the lock became free is most likely the one that got it, so its client comes first; it may
read some more replies, one at a time, before it is stopped for good.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from cluster.polling import becomes_true
from fencepost.history import Impact
from nemesis.base import Client, Step, World
from nemesis.do_all import do_all
from nemesis.pause_before_reply import LOOK_EVERY_S, REPLIES_LATE_MS, late_replies, stopped_at

_LATE_S = REPLIES_LATE_MS / 1000
_ASKS_WITHIN_S = 0.8 * _LATE_S
"""How long a client has to send its next request, before it is stopped."""
_ARRIVES_WITHIN_S = 1.5 * _LATE_S
"""After this time a late reply to a client that was stopped has reached it, unless another fault holds it up."""
_CHOOSY = 0.4
"""The share of the time in which another client that begins to acquire is no sign that the lock is free."""
_MORE_WITHIN_S = 0.25
"""How long to wait for further clients when one was caught."""


def stop_between(
    world: World, owner: str, candidates: Sequence[Client], after: int, most: int, within_s: float
) -> Impact:
    """Stop up to `most` clients, each between two requests of an acquire, when it has read `after` more replies. If its
    acquire has fewer requests, the next one is stopped after fewer. No client if it does not happen in time."""
    caught: list[Client] = []
    now = time.monotonic()
    choosy_until_s, deadline = now + _CHOOSY * within_s, now + within_s
    try:
        with late_replies(world, owner, candidates) as links:
            while len(caught) < most:
                free_s = _await_free(world, candidates, choosy_until_s, deadline)
                if free_s is None:
                    break
                world.sleep(max(0.0, free_s + _ASKS_WITHIN_S - time.monotonic()))
                others = [client for client in candidates if client not in caught]
                client = _stop_first_reached(world, others, free_s + _LATE_S)
                if client is not None and all(_goes_on(world, client) for _ in range(after)):
                    caught.append(client)
                    deadline = min(deadline, time.monotonic() + _MORE_WITHIN_S)
                elif client is not None:
                    after = max(0, after - 1)
    except BaseException:
        do_all(client.resume for client in caught)
        raise
    return Impact(slow_links=links, paused_clients=tuple(client.name for client in caught))


def are_reached(world: World, clients: Sequence[Client]) -> bool:
    """Whether each of the clients has a reply that it has not read, within the time that a late one takes."""
    return becomes_true(lambda: {client.name for client in clients} <= _reached(world), within_s=_ARRIVES_WITHIN_S)


def _await_free(world: World, clients: Sequence[Client], choosy_until_s: float, deadline: float) -> float | None:
    """When a client leaves its section, or begins to acquire and is the only one that uses the lock; later on, when any
    client begins to acquire. None after the deadline."""
    inside, acquiring = _those_at(clients, "inside"), _those_at(clients, "acquiring")
    while (now := time.monotonic()) < deadline and not world.called_off():
        inside_now, acquiring_now = _those_at(clients, "inside"), _those_at(clients, "acquiring")
        if inside - inside_now:
            return now
        is_alone = len(_those_at(clients, "inside", "acquiring", "releasing")) == 1
        if acquiring_now - acquiring and (is_alone or now > choosy_until_s):
            return now
        inside, acquiring = inside_now, acquiring_now
        world.sleep(LOOK_EVERY_S)
    return None


def _stop_first_reached(world: World, clients: Sequence[Client], from_s: float) -> Client | None:
    """Of those that acquire, the one that a reply reaches first from then on, stopped. What came earlier answers what
    was asked before the lock was free."""
    stopped: list[Client] = []
    first: Client | None = None
    try:
        stopped.extend(client for client in clients if stopped_at(client, "acquiring"))
        first = _first_reached(world, stopped, from_s)
    finally:
        do_all(client.resume for client in stopped if client is not first)
    return first


def _first_reached(world: World, stopped: Sequence[Client], from_s: float) -> Client | None:
    early = set[str]()
    deadline = time.monotonic() + _ARRIVES_WITHIN_S
    while len(early) < len(stopped) and (now := time.monotonic()) < deadline:
        reached = _reached(world) - early
        if now < from_s:
            early |= reached
        elif found := [client for client in stopped if client.name in reached]:
            return found[0]
        world.sleep(LOOK_EVERY_S)
    return None


def _goes_on(world: World, client: Client) -> bool:
    """Whether the client reads its reply and sends another request in the same acquire; then it is stopped again."""
    client.resume()
    world.sleep(_ASKS_WITHIN_S)
    if not stopped_at(client, "acquiring"):
        return False
    is_reached = False
    try:
        is_reached = are_reached(world, [client])
    finally:
        if not is_reached:
            client.resume()
    return is_reached


def _reached(world: World) -> set[str]:
    return {client for client, _ in world.cluster.unread()}


def _those_at(clients: Sequence[Client], *steps: Step) -> set[str]:
    return {client.name for client in clients if any(client.is_at(step) for step in steps)}
