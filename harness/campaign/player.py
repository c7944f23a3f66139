"""The process in which a worker makes its runs, one after the other: `player_process` starts it.

It is fresh, so that signals reach the run as they would reach the command, and it goes on for the next run, so that
judging is imported once. It reads orders and writes what it shows and what it made, a JSON line each. When its orders
end, because its worker wants that or is gone, it takes the run under way down.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from contextlib import nullcontext
from typing import Final

import msgspec

from fencepost.boundary import unexpected
from fencepost.errors import FencepostError
from fencepost.interpreter_start import is_complete
from harness.campaign.one_run import Made, Order, make
from harness.run.interruption import Interruption
from harness.run.messages import Failed, Shown, tell
from harness.run.sandbox_parent import more_runs_follow
from harness.run.snapshot import Snapshot

_SHOW_EVERY_S: Final = 0.5


class _Reporter:
    """The way out. Implements `harness.run.snapshot.Display`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._next_s = 0.0

    def update(self, now: Snapshot) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _SHOW_EVERY_S
            self.send(Shown(now))

    def send(self, message: Shown | Made) -> None:
        """If the worker is gone, the orders end too, and with them the run under way."""
        tell(self._descriptor, message)


def main() -> None:
    """Make runs until no more orders come."""
    is_complete()
    out = _Reporter(os.dup(1))
    os.dup2(2, 1)  # what modules of the user print must not get among the messages
    orders: queue.Queue[Order | None] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            orders.put(msgspec.json.decode(line, type=Order))
        orders.put(None)
        os.kill(os.getpid(), signal.SIGTERM)  # a run under way ends as on Ctrl-C

    with Interruption().watch() as interruption, more_runs_follow():
        threading.Thread(target=listen, daemon=True).start()
        while (order := orders.get()) is not None and not interruption:
            out.send(_made(order, out, interruption))


def _made(order: Order, out: _Reporter, interruption: Interruption) -> Made:
    try:
        return make(order, nullcontext(out), lambda: bool(interruption))
    except FencepostError as error:
        return Made(failure=Failed.of(error))
    except Exception as error:
        return Made(failure=Failed("internal", f"the run {unexpected(error)}"))
