"""Steps that faults share: do everything whatever one part raises, await a condition, ask who is in service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from nemesis.base import World

LOOK_EVERY_S = 0.002


def do_all(actions: Iterable[Callable[[], object]]) -> None:
    """Do every action, also when one of them raises; the first error is raised in the end. For healing, where one part
    that resists must not keep the others broken."""
    first_error: Exception | None = None
    for action in actions:
        try:
            action()
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def at_once(actions: Iterable[Callable[[], object]]) -> None:
    """`do_all`, every action at the same moment: nodes of one rack lose their power together, not one by one."""
    waiting = list(actions)
    with ThreadPoolExecutor(max(1, len(waiting)), thread_name_prefix="fault") as hands:
        under_way = [hands.submit(action) for action in waiting]
    do_all(action.result for action in under_way)


def await_that(holds: Callable[[], bool], within_s: float) -> bool:
    """Ask until it holds or the time is over; whether it held."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def in_service(world: World, names: Iterable[str]) -> tuple[str, ...]:
    """Those nodes that answer now: one that another fault has already taken away cannot be hit once more. They are
    asked side by side, because a dead one may keep the asker waiting."""
    asked = tuple(names)
    with ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="probe") as hands:
        up = list(hands.map(lambda name: world.cluster.nodes[name].is_up(), asked))
    return tuple(name for name, answers in zip(asked, up, strict=True) if answers)
