"""What a backend is: one way to run the servers of a cluster, as processes or in containers.

Each is a file in `cluster/backends` with a `BACKEND`. The harness asks that object and names no backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from cluster.site import Site

if TYPE_CHECKING:
    from cluster.base import Cluster
    from cluster.lifetime import StateFolder
    from cluster.spec import ClusterSpec


class Ability(NamedTuple):
    """What `fencepost doctor` says of a backend. `fix`: what to do if `ok` is false, else empty."""

    name: str
    ok: bool
    found: str
    fix: str = ""


class Remainder(NamedTuple):
    """A line of `fencepost clean`. `is_left`: it is about something that a dead run left behind."""

    line: str
    is_left: bool


class Backend(ABC):
    """`name`: what `--cluster` calls it. `words`: how a run's servers are, after a number of them: `as processes`.
    `rank`: `auto` takes the available backend with the lowest one; None: only a user who names it gets it. `packages`:
    the Python packages whose versions `environment.json` tells of its runs.

    Loading the module of a backend must take no time: each command that lists the backends loads all of them.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    rank: ClassVar[int | None] = None
    packages: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def find_site(self, spec: ClusterSpec, *, is_asked: bool) -> Site:
        """Where the servers of a run can be. `is_asked`: the user named this backend; otherwise one that is slow to
        answer is given up soon. Raises UnavailableError, and UsageError for programs that it cannot run."""

    @abstractmethod
    def open_cluster(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None) -> Cluster:
        """The cluster, not started, of a run whose site is in its state folder. `wire`: the folder for what goes over
        the links; None: it is not recorded."""

    def sweep(self, is_alive: Callable[[Path], bool], parent: Path | None, site: Site | None = None) -> list[str]:
        """A `cluster.sweep.Sweeper`, once `parent`, the folder of the state folders, is given: remove what dead runs
        have in this backend, but their processes and folders; a line for each thing removed. `site`: that of the one
        run that has just died."""
        return []

    def left_by_others(self, sweep: Callable[[Path], object], *, everything: bool) -> Iterator[Remainder]:
        """What runs of other users, or with other temporary folders, have in this backend; with `everything` what dead
        ones have is removed. `sweep`: of all that dead runs left, by the folder of their state folders."""
        return iter(())

    def examine(self, server: str) -> Ability | None:
        """Whether this machine can have runs of this server in the backend; None if every machine can."""
        return None

    def whereabouts(self, site: Site) -> str:
        """Where the servers of a run are reached, for `fencepost shell`."""
        return "in its namespaces" if site.in_sandbox else "on this machine's network"

    def variables(self, site: Site) -> Mapping[str, str]:
        """The environment in which other programs look into a run of this backend."""
        return {}
