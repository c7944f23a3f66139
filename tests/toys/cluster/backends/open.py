"""A toy backend: processes on this machine's own network, and a folder for each run, left if the run is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

from cluster.backend import Ability, Backend
from cluster.base import Cluster
from cluster.lifetime import StateFolder, sites_of_dead, state_parent
from cluster.process import ProcessCluster
from cluster.site import Site
from cluster.spec import ClusterSpec


class OpenCluster(ProcessCluster):
    name: ClassVar[str] = "open"

    def stop(self) -> None:
        super().stop()
        assert self._state.site is not None
        shutil.rmtree(self._state.site.place, ignore_errors=True)


class InTheOpen(Backend):
    name: ClassVar[str] = "open"
    words: ClassVar[str] = "in the open"

    def find_site(self, spec: ClusterSpec, *, is_asked: bool) -> Site:
        return Site(self.name, place=mkdtemp(dir=os.environ["OPEN_PLACES"]))

    def open_cluster(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None) -> Cluster:
        return OpenCluster(spec, state, log_dir, wire)

    def sweep(self, is_alive: Callable[[Path], bool], parent: Path | None, site: Site | None = None) -> list[str]:
        dead = sites_of_dead(parent or state_parent(), self.name, is_alive).values() if site is None else [site]
        places = [each.place for each in dead if Path(each.place).exists()]
        for place in places:
            shutil.rmtree(place)
        return [f"removed {place}" for place in places]

    def examine(self, server: str) -> Ability:
        return Ability("open air", True, f"for {server}")

    def whereabouts(self, site: Site) -> str:
        return f"in the open, with {site.place}"


BACKEND = InTheOpen()
