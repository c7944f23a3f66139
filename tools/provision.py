"""The order of set-up and its output: one line per step with the time it took, or one line with the reason it
failed."""

from __future__ import annotations

import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType

from steps import environment_steps, prepare_pip, server_steps
from workshop import InterruptedSetupError, SetupError, Step, Workshop

ROOT = Path(__file__).resolve().parent.parent
_AT_ONCE = 3
"""Downloads wait while the build of one server computes: three concurrent steps keep two cores busy."""


def main() -> int:
    """Returns the exit status: 0 ready, 1 something failed, 130 interrupted."""
    for deadly in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(deadly, _interrupt)
    shop = Workshop(ROOT)
    clock = _Clock()
    try:
        with shop.alone(waiting=lambda: clock.say("another set-up of this folder is running; waiting for it")):
            return _bring(shop, clock)
    except KeyboardInterrupt:
        shop.stop()
        print("\nsetup: interrupted; finished steps are kept, run it again to continue", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:
        shop.stop()
        print(f"setup: {error}", file=sys.stderr)
        return 1


def _bring(shop: Workshop, clock: _Clock) -> int:
    # The slowest steps go first.
    environment, *foreign = environment_steps(shop)
    toxiproxy, *servers = server_steps(shop)
    todo = [step for step in (environment, toxiproxy, *foreign, *servers) if not shop.is_done(step)]
    if not todo:
        return 0
    shop.bin.mkdir(parents=True, exist_ok=True)
    names = ", ".join(step.name for step in todo)
    clock.say(f"installing {names} (Python {sys.version.split()[0]} at {sys.executable})")
    prepare_pip(shop)
    if not _all_at_once(shop, clock, todo):
        return 1
    clock.say(f"ready ({clock.elapsed():.1f} s)")
    return 0


def _all_at_once(shop: Workshop, clock: _Clock, steps: list[Step]) -> bool:
    """Run independent steps concurrently. If one fails, the others still finish, so that the next attempt has less to
    do.
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
                    print(f"setup: {error}", file=sys.stderr, flush=True)
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


def _timed(shop: Workshop, step: Step) -> tuple[str, float]:
    began = time.monotonic()
    return shop.perform(step), time.monotonic() - began


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class _Clock:
    """Prints lines for the user; on a terminal also one line with the running steps."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._live = sys.stdout.isatty()

    def say(self, text: str) -> None:
        self.clear()
        print(f"setup: {text}", flush=True)

    def done(self, name: str, found: str, seconds: float) -> None:
        self.clear()
        print(f"  {seconds:6.1f} s  {name:<17} {found}", flush=True)

    def tick(self, names: list[str]) -> None:
        if self._live and names:
            print(f"\r\x1b[K  {self.elapsed():6.0f} s  … {', '.join(names)}", end="", flush=True)

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", flush=True)

    def elapsed(self) -> float:
        return time.monotonic() - self._began
