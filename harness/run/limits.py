"""Do the limits that this shell sets (`ulimit`) leave room for the run? What can be known is known before it starts."""

from __future__ import annotations

import resource
from typing import Final

from fencepost.errors import UsageError
from harness.config import RunConfig

_FILES_OF_A_LINK: Final = 5
"""In Toxiproxy: its listener, and both ends of two connections. The harness holds the port of each by a socket."""
_OTHER_FILES: Final = 256
_PROCESSES_OF_A_CLIENT: Final = 4
"""A client, its threads, and the program that its lock may be; threads count as processes."""
_OTHER_PROCESSES: Final = 64
_ADDRESS_SPACE_BYTES: Final = 2 << 30
"""Of the largest process. Toxiproxy, a Go program, reserves most of this and uses little of it."""
_FILE_BYTES: Final = 64 << 20
"""Of a log of a client, a server or the witness. The kernel ends a server whose file would become too large."""
_SETUP_CPU_S: Final = 30
"""Of processor time: a process may start, and judge a long record, before and after the load."""
_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


def check_limits(config: RunConfig) -> None:
    """Raise UsageError, naming the limit, if the run cannot fit into it."""
    sentinels = len(config.sentinel_names)
    links = config.clients * (config.nodes + 1 + sentinels)
    if config.replication != "none":
        links += config.nodes * (config.nodes - 1)
    files = links * _FILES_OF_A_LINK + _OTHER_FILES
    processes = config.clients * (_PROCESSES_OF_A_CLIENT + config.tasks) + config.nodes + sentinels + _OTHER_PROCESSES
    size = f"{config.clients} clients of {config.nodes} nodes"
    _check(resource.RLIMIT_NOFILE, files, f"{size} need {files:,} open files", "ulimit -Hn", hard=True)
    _check(resource.RLIMIT_NPROC, processes, f"{size} need {processes:,} processes and threads", "ulimit -u")
    seconds = _SETUP_CPU_S + int(config.duration_ms + config.recovery_ms) // 1000
    _check(resource.RLIMIT_CPU, seconds, f"a process of a run may need {seconds:,} s of CPU time", "ulimit -t")
    files = _FILE_BYTES
    _check(resource.RLIMIT_FSIZE, files, f"a run needs files of {files // _KIB:,} KiB", "ulimit -f", unit=_KIB)
    space = _ADDRESS_SPACE_BYTES
    _check(resource.RLIMIT_AS, space, f"a run needs {space // _MIB:,} MiB of address space", "ulimit -v", unit=_MIB)


def _check(kind: int, needed: int, what: str, shown_by: str, *, hard: bool = False, unit: int = 1) -> None:
    """`hard`: the soft limit does not count, because fencepost raises it as far as it may."""
    limit = resource.getrlimit(kind)[hard]
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise UsageError(f"{what}, and this shell allows {limit // unit:,} ({shown_by}); raise that, or ask for less")
