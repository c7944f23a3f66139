"""The workload, a loop: acquire the lock, read a counter, hold the lock for a while, write the counter plus one,
release.

A client that may extend its lease does so whenever half of it is gone. If an extension is refused, the client stops
working, writes nothing and releases the lock, as a careful user would.

If the lock excludes, the counter ends at the number of writes. `workloads.steps` has the steps and what they record.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from time import monotonic_ns, sleep

from workloads.base import Lock
from workloads.control import Control
from workloads.options import ClientOptions
from workloads.recorder import Recorder
from workloads.resource import Resource
from workloads.steps import Steps

_SPIN_NS = 1_000_000
"""After a refusal faster than this the client pauses, so that it does not spin on a lock without a retry delay."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one client does. `rng` draws keys, holds and pauses after quick refusals."""

    client: str
    options: ClientOptions
    rng: Random
    first_section: int = 1

    @property
    def keys(self) -> list[str]:
        return [f"k{number}" for number in range(1, self.options.keys + 1)]


def run(
    plan: Plan, lock: Lock, resource: Resource, record: Recorder, control: Control, held: Recorder | None = None
) -> None:
    """Work until `control.stop_ns`. Raises whatever breaks the run itself: a lock command that died, a full disk."""
    steps = Steps(plan.client, plan.options, lock, resource, record, control, plan.first_section, held)
    rng, keys = plan.rng, plan.keys
    while monotonic_ns() < control.stop_ns:
        key = keys[0] if len(keys) == 1 else rng.choice(keys)
        if not _enter(plan, steps, control, key):
            return
        _work_inside(plan, steps)
        steps.release()


def _enter(plan: Plan, steps: Steps, control: Control, key: str) -> bool:
    """Try until the lock is granted. False: the time to stop came first."""
    while (op := steps.acquire(key)).outcome != "ok":
        if op.complete_ns - op.invoke_ns < _SPIN_NS:
            sleep(plan.rng.uniform(0, plan.options.retry_delay_ms) / 1000)
        if monotonic_ns() >= control.stop_ns:
            return False
    return True


def _work_inside(plan: Plan, steps: Steps) -> None:
    """Draw a token, read, hold (and extend), write; stop at the first step that does not succeed."""
    if steps.needs_token and steps.draw_token().outcome != "ok":
        return
    if steps.read().outcome != "ok":
        return
    if _hold(plan, steps):
        steps.write()


def _hold(plan: Plan, steps: Steps) -> bool:
    """Stay in the section for as long as the work takes. False: an extension was not granted, so the work stops."""
    now_ns = monotonic_ns()
    until_ns = now_ns + int(plan.options.hold.draw_ms(plan.rng) * 1e6)
    left = plan.options.extensions
    while now_ns < until_ns:
        halfway_ns = now_ns + max(0, steps.lapses_ns - now_ns) // 2
        if not left or halfway_ns >= until_ns:
            sleep((until_ns - now_ns) / 1e9)
            return True
        sleep((halfway_ns - now_ns) / 1e9)
        if steps.extend().outcome != "ok":
            return False
        left -= 1
        now_ns = monotonic_ns()
    return True
