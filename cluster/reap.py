"""What a reaper does after the death of its harness (`cluster.reaper`): it removes everything of that run.

It loads nothing that takes long to load, because it has seconds, also on a busy machine.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from cluster.engine_address import Engine
from cluster.reaper import ENGINE_VARIABLE
from cluster.run_processes import end_processes
from fencepost.errors import BrokenEnvironmentError


def main(folder: Path) -> None:
    """Remove what belongs to the run with this state folder. Processes first: the rest takes a while to import."""
    with suppress(BrokenEnvironmentError):  # one that does not end is tried again below
        end_processes(folder.name)

    from cluster.disk import sweep_disks
    from cluster.engine_sweep import sweep_docker
    from cluster.sweep import sweep_one

    engine = os.environ.get(ENGINE_VARIABLE)
    containers = partial(sweep_docker, parent=folder.parent, engines=[Engine.decode(engine)] if engine else [])
    # Disks last: a container may still use one.
    sweep_one(folder, [containers, partial(sweep_disks, parent=folder.parent)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
