"""The command that makes a run again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.config import RunConfig


def replay_command(config: RunConfig, schedule: Path, experiment: str | None = None) -> str:
    """The command that makes this run again: the same schedule, the same seed for everything else; or the same
    `experiment`, as the command line called it."""
    if experiment is not None:
        return shlex.join([program(), "script", experiment, *_options(config, _OF_SCRIPTS)])
    words = [program(), "test", "--seed", str(config.seed), "--schedule", str(schedule)]
    if config.disks:
        words.append("--disks")
    return shlex.join([*words, *_options(config, _REPLAYED)])


def _options(config: RunConfig, names: Iterable[str]) -> list[str]:
    """Those of the options that say something else than the default."""
    default = RunConfig(seed=0)
    words: list[str] = []
    for option in names:
        field, text = _REPLAYED[option]
        if getattr(config, field) != getattr(default, field):
            words += [option, text(getattr(config, field))]
    return words


def program() -> str:
    """How the user calls fencepost: by its name where that is on PATH, else by the path that was used now."""
    called = Path(sys.argv[0])
    if shutil.which("fencepost") or called.name != "fencepost":
        return "fencepost"
    return os.path.relpath(called)


def _ms(value: float) -> str:
    return f"{value:g}ms"


_REPLAYED: dict[str, tuple[str, Callable[[Any], str]]] = {
    "--lock": ("lock", str),
    "--lock-command": ("lock_command", str),
    "--duration": ("duration_ms", _ms),
    "--recovery": ("recovery_ms", _ms),
    "--clients": ("clients", str),
    "--nodes": ("nodes", str),
    "--keys": ("keys", str),
    "--ttl": ("ttl_ms", _ms),
    "--hold": ("hold", str),
    "--extend": ("extensions", str),
    "--fencing": ("fencing", str),
    "--acquire": ("acquire_mode", str),
    "--node-timeout": ("node_timeout_ms", _ms),
    "--retry-delay": ("retry_delay_ms", _ms),
    "--require": ("require", str),
    "--cluster": ("cluster", str),
    "--server": ("server", str),
    "--persistence": ("persistence", str),
    "--disk-fs": ("disk_fs", str),
    "--witness": ("witness", str),
}

_OF_SCRIPTS = ("--lock", "--lock-command", "--fencing", "--ttl", "--cluster", "--server", "--persistence", "--disk-fs")
"""Those that `fencepost script` knows too."""
