"""The process that hosts Dask's scheduler and workers on this machine.

It has a session of its own, so that a Ctrl-C at the terminal reaches neither the workers nor their replacements.
It says where the scheduler listens. It ends with everything below it when its input does, also when the command is
killed, and then nothing is left of it. If it is killed itself, its reaper removes its folder (`cluster.lifetime`).
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

import dask.config
from distributed import LocalCluster

from cluster.lifetime import RunState
from fencepost.interpreter_start import is_complete

_LOOPBACK: Final = "127.0.0.1"


def main(count: int) -> None:
    """Nothing listens beyond loopback."""
    is_complete()
    with (
        RunState.create(f"workers-{time.time_ns()}") as state,
        dask.config.set({"temporary-directory": str(state.path)}),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host=_LOOPBACK,
            dashboard_address=None,
            local_directory=str(state.path),
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        sys.stdout.write(f"{cluster.scheduler_address}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
