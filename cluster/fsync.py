"""How long an fsync takes: what `aof-always` costs on this disk, before any server is involved."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from fencepost.errors import BrokenEnvironmentError

_ENTRY = b"x" * 128
"""About as much as one SET adds to an append-only file."""


def fsync_latency_ms(folder: Path, rounds: int = 100) -> Mapping[str, float]:
    """Append to a file in `folder` and fdatasync it, as a server does under `aof-always`, `rounds` times.

    The time of one fdatasync in milliseconds as `p50`, `p90`, `p99` and `max`. The file is gone afterwards.

    Raises BrokenEnvironmentError if the folder cannot be written to.
    """
    took_ms: list[float] = []
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(rounds):
                file.write(_ENTRY)
                began_ns = time.perf_counter_ns()
                os.fdatasync(file.fileno())
                took_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
    except OSError as error:
        raise BrokenEnvironmentError(f"the fsync latency of {folder} cannot be measured: {error}") from error
    took_ms.sort()
    ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(took_ms[min(int(rank * rounds), rounds - 1)], 4) for name, rank in ranks.items()}
