"""Driven clients: client processes that receive one step at a time over a pipe and return what they recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import msgspec

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import Op
from harness.run.clients import ClientSlot, await_ready
from harness.run.messages import Lines
from workloads.driven_client import StepAnswer, StepOrder

ANSWER_WITHIN_S = 60.0
READY_WITHIN_S = 30.0
_LOOK_EVERY_MS = 20


class DrivenClientSlot(ClientSlot):
    """A slot whose process waits for orders; otherwise a client like any other. It is patient with the resource,
    because a script may hold up what it asks for."""

    RESOURCE_TIMEOUT_MS = ANSWER_WITHIN_S * 500
    _orders: int | None = None
    _answers: int | None = None
    _under_way: StepOrder | None = None

    def start(self) -> None:
        self._close_pipes()
        (their_orders, self._orders), (self._answers, their_answers) = os.pipe(), os.pipe()
        self._pipes = (their_orders, their_answers)
        try:
            super().start()
        finally:
            os.close(their_orders)
            os.close(their_answers)

    def restart(self) -> None:
        """Start a new process and wait until it accepts orders."""
        super().restart()
        if self.is_alive():
            await_ready([self], READY_WITHIN_S, lambda: False)

    def tell(self, order: StepOrder) -> None:
        """Send an order; `answer` waits for its step. Raises UsageError for a client that cannot take a step now."""
        if self._under_way is not None:
            raise UsageError(f"{self.name} is still at {self._under_way.do} and cannot {order.do}; finish that first")
        if self._orders is None or not self.is_alive():
            raise UsageError(f"{self.name} is not alive and cannot {order.do}; restart it first")
        if self.is_paused():
            raise UsageError(f"{self.name} is paused and cannot {order.do}; resume it first")
        with suppress(BrokenPipeError):  # it has just died; the wait for its answer notices
            os.write(self._orders, msgspec.json.encode(order) + b"\n")
        self._under_way = order

    def answer(self, meanwhile: Callable[[], object]) -> Op:
        """What the step under way recorded. Calls `meanwhile` repeatedly until then; it may raise.

        Raises UsageError for a step that is impossible now, BrokenEnvironmentError for a client that died or does not
        answer.
        """
        if (order := self._under_way) is None:
            raise UsageError(f"{self.name} has no step to finish")
        if self.is_paused():
            raise UsageError(f"{self.name} is paused and cannot finish {order.do}; resume it first")
        answer = msgspec.json.decode(self._line(order, meanwhile), type=StepAnswer)
        self._under_way = None
        if answer.op is None:
            raise UsageError(answer.misfit or f"{self.name} did not {order.do}")
        return answer.op

    def agree_stop(self, at_ns: int) -> None:
        """End the orders: the process then exits on its own."""
        super().agree_stop(at_ns)
        if self._orders is not None:
            os.close(self._orders)
            self._orders = None

    def _line(self, order: StepOrder, meanwhile: Callable[[], object]) -> bytes:
        assert self._answers is not None
        answers = Lines(self._answers)
        deadline = monotonic() + ANSWER_WITHIN_S
        while not (lines := answers.arrived(_LOOK_EVERY_MS)):
            if answers.is_over:
                self._reap_now()
                raise BrokenEnvironmentError(f"{self.name} ended during the step {order.do}; see logs/")
            meanwhile()
            if monotonic() > deadline:
                raise BrokenEnvironmentError(f"{self.name} did not {order.do} within {ANSWER_WITHIN_S:g} s")
        return lines[0]

    def _reap_now(self) -> None:
        """Wait for a process that closed its pipe; raise with the end of its log if it died."""
        if self._process is not None:
            self._process.wait(timeout=10)
            self.reap()

    def _end(self, how: str) -> None:
        super()._end(how)
        self._close_pipes()

    def _close_pipes(self) -> None:
        for fd in (self._orders, self._answers):
            if fd is not None:
                with suppress(OSError):
                    os.close(fd)
        self._orders = self._answers = self._under_way = None
