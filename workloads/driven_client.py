"""A driven client: it takes the steps that it is told to, one line of JSON each, and answers with what it recorded.

It is the same process as any other client, with the same lock, resource, recorder and log. Only the next step comes
from a pipe and not from a loop. When the pipe ends, so does the client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

import msgspec

from fencepost.errors import UsageError
from fencepost.history import Op
from workloads.steps import Steps

Step = Literal["acquire", "extend", "token", "read", "write", "release"]


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step to take; `key` goes with `acquire`."""

    do: Step
    key: str = ""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the step recorded; or why it does not fit the steps before it, in which case nothing was done."""

    op: Op | None = None
    misfit: str | None = None


def serve(steps: Steps, orders_fd: int, answers_fd: int) -> None:
    """Take steps until no more orders come. Raises what breaks the run itself."""
    decode = msgspec.json.Decoder(Order).decode
    for line in _lines(orders_fd):
        try:
            answer = Answer(op=_take(steps, decode(line)))
        except UsageError as error:
            answer = Answer(misfit=str(error))
        os.write(answers_fd, msgspec.json.encode(answer) + b"\n")


def _take(steps: Steps, order: Order) -> Op:
    match order.do:
        case "acquire":
            return steps.acquire(order.key)
        case "extend":
            return steps.extend()
        case "token":
            return steps.draw_token()
        case "read":
            return steps.read()
        case "write":
            return steps.write()
        case "release":
            return steps.release()


def _lines(fd: int) -> Iterator[bytes]:
    with os.fdopen(fd, "rb") as orders:
        yield from orders
