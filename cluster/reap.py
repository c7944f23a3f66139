"""What a reaper does after the death of its harness (`cluster.reaper`): it removes everything of that run.

It loads nothing that takes long to load, because it has seconds, also on a busy machine.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from cluster.reaper import SITE_VARIABLE
from cluster.run_processes import end_processes
from cluster.site import Site
from fencepost.errors import BrokenEnvironmentError


def main(folder: Path) -> None:
    """Remove what belongs to the run with this state folder. Processes first: the rest takes a while to import."""
    with suppress(BrokenEnvironmentError):  # one that does not end is tried again below
        end_processes(folder.name)

    from cluster.backend_registry import sweepers_of
    from cluster.sweep import sweep_one

    site = os.environ.get(SITE_VARIABLE)
    sweep_one(folder, sweepers_of(Site.decode(site) if site else None, folder.parent))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
