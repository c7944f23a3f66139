"""The workload: acquire, enter, read the counter, hold, write it plus one, exit, release; again.

If the lock excludes, the counter ends at the number of writes. What each step is and records is in `workloads.steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic_ns, sleep

from workloads.base import Lock
from workloads.control import Control
from workloads.hold import Hold
from workloads.recorder import Recorder
from workloads.resource import Resource
from workloads.steps import Fencing, Steps

_SPIN_NS = 1_000_000
"""A refusal that came back faster than this gets a pause, so that a lock without a retry delay does not spin."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one client does. `rng` draws keys, holds and pauses after quick refusals."""

    client: str
    keys: Sequence[str]
    ttl_ms: int
    hold: Hold
    fencing: Fencing
    retry_delay_ms: float
    rng: Random
    first_section: int = 1


def run(
    plan: Plan, lock: Lock, resource: Resource, record: Recorder, control: Control, held: Recorder | None = None
) -> None:
    """Work until `control.stop_ns`. Raises what breaks the run itself: a lock command that died, a full disk."""
    steps = Steps(plan.client, plan.ttl_ms, plan.fencing, lock, resource, record, control, plan.first_section, held)
    rng, keys = plan.rng, plan.keys
    while monotonic_ns() < control.stop_ns:
        key = keys[0] if len(keys) == 1 else rng.choice(keys)
        if not _enter(plan, steps, control, key):
            return
        _work_inside(plan, steps)
        steps.release()


def _enter(plan: Plan, steps: Steps, control: Control, key: str) -> bool:
    """Try until it is granted; False when the time to stop came first."""
    while (op := steps.acquire(key)).outcome != "ok":
        if op.complete_ns - op.invoke_ns < _SPIN_NS:
            sleep(plan.rng.uniform(0, plan.retry_delay_ms) / 1000)
        if monotonic_ns() >= control.stop_ns:
            return False
    return True


def _work_inside(plan: Plan, steps: Steps) -> None:
    """Token, read, hold, write; given up at the first step that did not succeed."""
    if steps.needs_token and steps.draw_token().outcome != "ok":
        return
    if steps.read().outcome != "ok":
        return
    hold_ms = plan.hold.draw_ms(plan.rng)
    if hold_ms > 0:
        sleep(hold_ms / 1000)
    steps.write()
