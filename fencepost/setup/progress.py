"""What a user sees of set-up: one line per step with the time it took, or one line with the reason it failed."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import FrameType

from fencepost.setup.workshop import InterruptedSetupError, SetupError, Step, Workshop
from fencepost.text import printable, printable_lines

_AT_ONCE = 3
"""Downloads wait while the build of one server computes: three concurrent steps keep two cores busy."""


def end_on_signals() -> None:
    """Let SIGTERM and a closed terminal end set-up as Ctrl-C does."""
    for deadly in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(deadly, _interrupt)


def perform_all(shop: Workshop, clock: Clock, steps: Sequence[Step]) -> bool:
    """Run independent steps concurrently. If one fails, the others still finish, so that the next attempt has less to
    do. Returns whether all were finished.
    """
    failed = False
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE)
    try:
        pending: dict[Future[tuple[str, float]], Step] = {pool.submit(_timed, shop, step): step for step in steps}
        while pending:
            finished, _ = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in finished:
                step = pending.pop(future)
                try:
                    found, seconds = future.result()
                except InterruptedSetupError:
                    failed = True
                except SetupError as error:
                    clock.clear()
                    print(f"setup: {printable_lines(str(error))}", file=sys.stderr, flush=True)
                    failed = True
                else:
                    clock.done(step.name, found, seconds)
            clock.tick([step.name for future, step in pending.items() if future.running()])
    except BaseException:
        clock.clear()
        shop.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return not failed


class Clock:
    """Prints lines for the user; on a terminal also one line with the running steps."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._live = sys.stdout.isatty()

    def say(self, text: str) -> None:
        self.clear()
        print(f"setup: {printable(text)}", flush=True)

    def announce(self, steps: Sequence[Step]) -> None:
        """Say what is going to be downloaded and run, before any of it is."""
        self.say("this will bring and run:")
        for step in steps:
            print(f"            {step.name:<19} {printable(step.brings)}", flush=True)

    def done(self, name: str, found: str, seconds: float) -> None:
        self.clear()
        print(f"  {seconds:6.1f} s  {name:<19} {printable(found)}", flush=True)

    def tick(self, names: list[str]) -> None:
        if self._live and names:
            print(f"\r\x1b[K  {self.elapsed():6.0f} s  … {', '.join(names)}", end="", flush=True)

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", flush=True)

    def elapsed(self) -> float:
        return time.monotonic() - self._began


def _timed(shop: Workshop, step: Step) -> tuple[str, float]:
    began = time.monotonic()
    return shop.perform(step), time.monotonic() - began


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
