"""A driven client: it takes the steps that it is told to, one line of JSON each, and answers with what it recorded.

It is the same process as any other client, with the same lock, resource, recorder and log. Only the next step comes
from a pipe and not from a loop. When the pipe ends, so does the client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from fencepost.errors import UsageError
from fencepost.history import LOCK_STEPS, Op
from workloads.lock_steps import LockSteps
from workloads.resource import Resource
from workloads.secrecy import hidden
from workloads.workload import Inside, Workload


class StepOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step to take: acquire (`key` goes with it), extend, release, or one of the workload's own."""

    do: str
    key: str = ""


class StepAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the step recorded; or why it does not fit the steps before it, in which case nothing was done."""

    op: Op | None = None
    misfit: str | None = None


def serve(
    workload: Workload,
    lock: LockSteps,
    resource: Resource,
    orders_fd: int,
    answers_fd: int,
    *,
    secret: str | None = None,
) -> None:
    """Take steps until no more orders come. Raises what breaks the run itself. `secret`: what no answer may contain."""
    decode = msgspec.json.Decoder(StepOrder).decode
    driven = _Driven(workload, lock, resource)
    for line in _lines(orders_fd):
        try:
            answer = StepAnswer(op=driven.take(decode(line)))
        except UsageError as error:
            answer = StepAnswer(misfit=str(error))
        os.write(answers_fd, hidden(msgspec.json.encode(answer), secret) + b"\n")


class _Driven:
    """Takes one step at a time, and keeps what the workload keeps of the section that the client is in."""

    def __init__(self, workload: Workload, lock: LockSteps, resource: Resource) -> None:
        self._workload = workload
        self._lock = lock
        self._resource = resource
        self._inside: Inside | None = None

    def take(self, order: StepOrder) -> Op:
        match order.do:
            case "acquire":
                op = self._lock.acquire(order.key)
                if op.outcome == "ok":
                    self._inside = self._workload.inside(self._lock, self._resource)
                return op
            case "extend":
                return self._lock.extend()
            case "held":
                return self._lock.still_held()
            case "reenter":
                return self._lock.reenter()
            case "leave":
                return self._lock.leave()
            case "release":
                return self._lock.release()
        return self._take_inside(order.do)

    def _take_inside(self, step: str) -> Op:
        own = self._workload.inside.steps
        if step not in own:
            name, known = self._lock.options.workload, ", ".join((*LOCK_STEPS, *own))
            raise UsageError(f"the workload {name} has no step {step!r}; it has {known}")
        self._lock.held(step)
        op: Op = getattr(self._inside, step)()
        return op


def _lines(fd: int) -> Iterator[bytes]:
    with os.fdopen(fd, "rb") as orders:
        yield from orders
