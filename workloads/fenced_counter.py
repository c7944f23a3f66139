"""The workload: acquire, enter, read the counter, hold, write it plus one, exit, release; again.

If the lock excludes, the counter ends at the number of writes. Each step is recorded before the next one begins. The
client does *not* look at the clock before it writes: whether a lapsed holder does harm is what is being measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic_ns, sleep
from typing import Literal

from fencepost.errors import FencepostError
from harness.history import Op, Outcome, TokenSource, Write
from workloads.base import Lease, Lock
from workloads.control import Control, State
from workloads.hold import Hold
from workloads.recorder import Recorder
from workloads.resource import Resource, StaleTokenError

Fencing = Literal["none", "writes", "all"]
"""Who shows a token to the resource: nobody, writes, or reads and writes."""

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


def run(plan: Plan, lock: Lock, resource: Resource, record: Recorder, control: Control) -> None:
    """Work until `control.stop_ns`. Raises what breaks the run itself: a lock command that died, a full disk."""
    section = plan.first_section - 1
    rng, keys = plan.rng, plan.keys
    while monotonic_ns() < control.stop_ns:
        section += 1
        key = keys[0] if len(keys) == 1 else rng.choice(keys)
        lease = _acquire(plan, lock, record, control, key, section)
        if lease is None:
            return
        control.enter(State.INSIDE, monotonic_ns())
        control.count(record.ops, section)
        _work_inside(plan, resource, record, lease, section)
        invoke_ns = monotonic_ns()
        control.enter(State.RELEASING, invoke_ns)
        outcome, error = _release(lock, lease)
        record(Op("release", outcome, key, section, invoke_ns, monotonic_ns(), error=error))


def _acquire(plan: Plan, lock: Lock, record: Recorder, control: Control, key: str, section: int) -> Lease | None:
    """Try until it is granted; None when the time to stop came first."""
    control.enter(State.ACQUIRING, monotonic_ns())
    while True:
        lease, error = None, None
        invoke_ns = monotonic_ns()
        try:
            lease = lock.acquire(key, plan.ttl_ms)
        except FencepostError:
            raise
        except Exception as caught:
            error = _in_words(caught)
        complete_ns = monotonic_ns()
        if lease is not None:
            record(
                Op(
                    "acquire",
                    "ok",
                    key,
                    section,
                    invoke_ns,
                    complete_ns,
                    token=lease.token,
                    token_source=None if lease.token is None else "lock",
                    validity_ms=lease.validity_ms,
                    deadline_ns=lease.deadline_ns,
                    computed_after_ns=lease.computed_after_ns,
                    computed_before_ns=lease.computed_before_ns,
                    requested_ns=lease.requested_ns,
                )
            )
            return lease
        record(Op("acquire", "fail" if error is None else "info", key, section, invoke_ns, complete_ns, error=error))
        control.count(record.ops, section - 1)
        if complete_ns - invoke_ns < _SPIN_NS:
            sleep(plan.rng.uniform(0, plan.retry_delay_ms) / 1000)
        if monotonic_ns() >= control.stop_ns:
            return None


def _work_inside(plan: Plan, resource: Resource, record: Recorder, lease: Lease, section: int) -> None:
    """Token, read, hold, write; given up at the first step that did not succeed."""
    key, fencing = lease.key, plan.fencing
    token = lease.token
    source: TokenSource | None = None if token is None else "lock"
    if fencing != "none" and token is None:
        token = _draw_token(resource, record, key, section)
        if token is None:
            return
        source = "resource"
    value = _read(resource, record, key, section, token if fencing == "all" else None, source)
    if value is None:
        return
    hold_ms = plan.hold.draw_ms(plan.rng)
    if hold_ms > 0:
        sleep(hold_ms / 1000)
    write = Write(key, 0, plan.client, section, value + 1, token)
    outcome: Outcome = "ok"
    stale, error = False, None
    invoke_ns = monotonic_ns()
    try:
        resource.write(write, check=fencing != "none")
    except StaleTokenError as caught:
        outcome, stale, error = "fail", True, str(caught)
    except Exception as caught:
        outcome, error = "info", _in_words(caught)
    complete_ns = monotonic_ns()
    record(
        Op(
            "write",
            outcome,
            key,
            section,
            invoke_ns,
            complete_ns,
            value=write.value,
            token=token,
            token_source=source,
            stale=stale,
            error=error,
        )
    )


def _draw_token(resource: Resource, record: Recorder, key: str, section: int) -> int | None:
    token, error = None, None
    invoke_ns = monotonic_ns()
    try:
        token = resource.next_token(key)
    except Exception as caught:
        error = _in_words(caught)
    complete_ns = monotonic_ns()
    outcome: Outcome = "ok" if error is None else "info"
    record(
        Op("token", outcome, key, section, invoke_ns, complete_ns, token=token, token_source="resource", error=error)
    )
    return token


def _read(
    resource: Resource, record: Recorder, key: str, section: int, token: int | None, source: TokenSource | None
) -> int | None:
    value, error = None, None
    outcome: Outcome = "ok"
    stale = False
    invoke_ns = monotonic_ns()
    try:
        value = resource.read(key, token)
    except StaleTokenError as caught:
        outcome, stale, error = "fail", True, str(caught)
    except Exception as caught:
        outcome, error = "info", _in_words(caught)
    complete_ns = monotonic_ns()
    shown = None if token is None else source
    record(
        Op(
            "read",
            outcome,
            key,
            section,
            invoke_ns,
            complete_ns,
            value=value,
            token=token,
            token_source=shown,
            stale=stale,
            error=error,
        )
    )
    return value


def _release(lock: Lock, lease: Lease) -> tuple[Outcome, str | None]:
    try:
        return ("ok" if lock.release(lease) else "fail"), None
    except FencepostError:
        raise
    except Exception as caught:
        return "info", _in_words(caught)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
