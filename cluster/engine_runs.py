"""What a Docker engine has of fencepost's: by run, of every user, and its images.

A sweep removes only what belongs to this user's runs with this TMPDIR, because only of these it knows by their lock
whether they are alive. For the others there is a second label, which names the process that made the run.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cluster.engine_address import Engine
from cluster.engine_http import ask_engine
from cluster.engine_sweep import (
    PROGRAM_LABEL,
    RUN_LABEL,
    STATE_LABEL,
    EngineResource,
    containers_of,
    entries,
    networks_of,
)
from cluster.lifetime import is_alive
from fencepost.text import plural

OWNER_LABEL: Final = "fencepost.owner"

Life = Literal["alive", "dead", "unknown"]


def this_owner() -> str:
    """This process, for `OWNER_LABEL`: the boot of the machine, its PID namespace, its number and when it began."""
    return f"{_boot()} {_pid_namespace()} {os.getpid()} {_began(os.getpid())}"


@dataclass(frozen=True, slots=True)
class HeldRun:
    """What an engine has of one run. `state`: the run's state folder."""

    run_id: str
    state: Path
    life: Life
    containers: int
    networks: int

    @property
    def labels(self) -> Mapping[str, str]:
        return {RUN_LABEL: self.run_id, STATE_LABEL: str(self.state)}

    def __str__(self) -> str:
        """`7 containers and 1 network of the run X with its temporary files in /other/fencepost-0`."""
        held = [plural(n, what) for n, what in ((self.containers, "container"), (self.networks, "network")) if n]
        return f"{' and '.join(held)} of the run {self.run_id} with its temporary files in {self.state.parent}"


def held_runs(engine: Engine) -> list[HeldRun]:
    """All runs, of all users, that have anything in the engine. Raises NoEngineError or BrokenEnvironmentError."""
    wanted = [RUN_LABEL, STATE_LABEL]
    containers, networks = containers_of(engine, wanted), networks_of(engine, wanted)
    of_one: dict[tuple[str, str], list[EngineResource]] = {}
    for each in [*containers, *networks]:
        of_one.setdefault((each.labels[RUN_LABEL], each.labels[STATE_LABEL]), []).append(each)
    counts = Counter((each.labels[RUN_LABEL], each.labels[STATE_LABEL]) for each in containers)
    return [
        HeldRun(key[0], Path(key[1]), _life(Path(key[1]), found), counts[key], len(found) - counts[key])
        for key, found in sorted(of_one.items(), key=lambda item: item[0])
    ]


def _life(state: Path, found: Sequence[EngineResource]) -> Life:
    """Whether the run is alive: by the lock in its state folder if there is one, else by the process that made it."""
    try:
        (state / ".").stat()
    except FileNotFoundError:
        owner = next((each.labels[OWNER_LABEL] for each in found if OWNER_LABEL in each.labels), "")
        return _life_of(owner.split())
    except OSError:
        return "unknown"
    return "alive" if is_alive(state) else "dead"


def _life_of(owner: Sequence[str]) -> Life:
    if len(owner) != 4 or owner[0] != _boot():
        return "dead"
    if owner[1] != _pid_namespace():
        return "unknown"
    return "alive" if _began(owner[2]) == owner[3] else "dead"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _began(process: int | str) -> str:
    """When a process began, in ticks since the boot; empty if there is none with this number (see proc(5))."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[19]
    except OSError:
        return ""


def image_ids(engine: Engine) -> frozenset[str]:
    """The images that fencepost has built in the engine. Raises NoEngineError or BrokenEnvironmentError."""
    return frozenset(image["Id"] for image in _images(engine))


def remove_images(engine: Engine, keep: Collection[str] = ()) -> list[str]:
    """Remove the images that fencepost has built in the engine and no container uses, except these; returns a line for
    each. Raises NoEngineError or BrokenEnvironmentError."""
    used = {each["ImageID"] for each in entries(engine, "/containers/json", {"all": "1"})}
    unused = [image for image in _images(engine) if image["Id"] not in used and image["Id"] not in keep]
    return [line for image in unused for line in _remove_image(engine, image)]


def _images(engine: Engine) -> Sequence[Mapping[str, Any]]:
    return entries(engine, "/images/json", {"filters": json.dumps({"label": [PROGRAM_LABEL]})})


def _remove_image(engine: Engine, image: Mapping[str, Any]) -> list[str]:
    """By its names, because an engine refuses to remove an image with several of them by its number."""
    names = image["RepoTags"] or [image["Id"]]
    replies = [ask_engine(engine, "DELETE", f"/images/{name}") for name in names]
    return [f"removed image {name}" for name, reply in zip(names, replies, strict=True) if reply.is_success]
