"""`make setup`, in order: the project's own Python environment, the servers, the proxy; with --dev what tests and lint
need, too.

The lock that the main job tests comes afterwards, with `fencepost setup`, which needs that environment.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from checkout import ROOT

# isort: split
from steps import dev_step, environment_step

from fencepost.setup.progress import Clock, end_on_signals, perform_all
from fencepost.setup.python import keep_compiled
from fencepost.setup.server_wheels import why_no_servers
from fencepost.setup.servers import server_steps
from fencepost.setup.wall_clock import NO_COMPILER, clock_step
from fencepost.setup.workshop import SetupError, Step, Workshop

_PACKAGES: Final = ("fencepost", "cluster", "nemesis", "workloads", "harness")


def main() -> int:
    """Returns the exit status: 0 ready, 1 something failed, 130 interrupted."""
    end_on_signals()
    shop = Workshop(ROOT / ".tools")
    clock = Clock()
    if not os.access(ROOT, os.W_OK) and not _missing(shop) and not _missing_dev(shop):
        return 0  # another user's clone, which is ready
    try:
        with shop.alone(waiting=lambda: clock.say("another set-up of this folder is running; waiting for it")):
            status = _bring(shop, clock)
            if status == 0:
                keep_compiled(ROOT / ".venv/bin/python", [ROOT / package for package in _PACKAGES])
            return status
    except KeyboardInterrupt:
        shop.stop()
        print("\nsetup: interrupted; finished steps are kept, run it again to continue", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:
        shop.stop()
        print(f"setup: {error}", file=sys.stderr)
        return 1


def _missing(shop: Workshop) -> list[Step]:
    toxiproxy, *servers = server_steps(shop)
    # The slowest steps go first.
    steps = (environment_step(ROOT), toxiproxy, *servers, clock_step(shop))
    return [step for step in steps if step is not None and not shop.is_done(step)]


def _bring(shop: Workshop, clock: Clock) -> int:
    todo = _missing(shop)
    if not todo:
        return _bring_dev(shop, clock)
    shop.bin.mkdir(parents=True, exist_ok=True)
    clock.say(f"Python {sys.version.split()[0]} at {sys.executable}")
    clock.announce(todo)
    for note in (why_no_servers(), None if clock_step(shop) else NO_COMPILER):
        if note:
            clock.say(note)
    if not perform_all(shop, clock, todo):
        return 1
    if status := _bring_dev(shop, clock):
        return status
    clock.say(f"ready ({clock.elapsed():.1f} s)")
    return 0


def _missing_dev(shop: Workshop) -> list[Step]:
    """What tests and lint need, if it is asked for."""
    if "--dev" not in sys.argv[1:] or shop.is_done(step := dev_step(ROOT)):
        return []
    return [step]


def _bring_dev(shop: Workshop, clock: Clock) -> int:
    """It goes into the environment, so after that."""
    if not (todo := _missing_dev(shop)):
        return 0
    clock.announce(todo)
    return 0 if perform_all(shop, clock, todo) else 1
