"""What the process in the sandbox is told to do (`harness.run.sandbox_child.Job`)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.run.plan import Setup
from nemesis.schedule import Schedule


class ScheduledJob(msgspec.Struct, frozen=True):
    """What the process in the sandbox needs to make the run. `folder`: the run's; `state`: its state folder."""

    setup: Setup
    schedule: Schedule
    folder: Path
    state: Path
