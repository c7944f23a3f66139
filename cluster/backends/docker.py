"""Servers in containers of a Docker engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from cluster.backend import Ability, Backend, Remainder
from cluster.engine_address import Engine, NoEngineError, find_engine
from cluster.site import Site, UnavailableError
from fencepost.errors import BrokenEnvironmentError, FencepostError, UsageError
from fencepost.setup.machine import IS_CLONE, SET_UP

if TYPE_CHECKING:
    from cluster.base import Cluster
    from cluster.lifetime import StateFolder
    from cluster.spec import ClusterSpec

_UNASKED_S: Final = 1.0
"""How long an engine has to answer that the user did not ask for."""
_WHY_IT_STAYS: Final[Mapping[str, str]] = {
    "dead": "that run is dead: `fencepost clean --all` removes them",
    "alive": "that run is alive",
    "unknown": "it cannot be told from here whether that run is alive; clean up as its user, and in the container in "
    "which it was started",
}


class Containers(Backend):
    """`Site.place` is the engine (`Engine.encode`)."""

    name: ClassVar[str] = "docker"
    words: ClassVar[str] = "in containers"
    rank: ClassVar[int | None] = 10
    packages: ClassVar[tuple[str, ...]] = ("docker",)

    def find_site(self, spec: ClusterSpec, *, is_asked: bool) -> Site:
        from cluster.engine_http import CALL_S
        from cluster.engine_trial import check_engine

        if spec.group and (found := _no_members(spec)):
            if is_asked:
                raise UsageError(f"--cluster {self.name}: {found}; use --cluster process")
            raise UnavailableError(found, "use --cluster process")
        engine = find_engine()
        check_engine(engine, spec, answers_within_s=CALL_S if is_asked else _UNASKED_S)
        return engine.site

    def open_cluster(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None) -> Cluster:
        from cluster.docker import DockerCluster

        return DockerCluster(spec, state, log_dir, wire)

    def sweep(self, is_alive: Callable[[Path], bool], parent: Path | None, site: Site | None = None) -> list[str]:
        from cluster.engine_sweep import sweep_docker

        return sweep_docker(is_alive, parent=parent, engines=None if site is None else [Engine.of(site)])

    def left_by_others(self, sweep: Callable[[Path], object], *, everything: bool) -> Iterator[Remainder]:
        from cluster.engine_runs import held_runs, remove_images
        from cluster.engine_sweep import remove_run
        from cluster.lifetime import live_runs, state_parent

        engine = find_engine()
        for run in held_runs(engine):
            parent = run.state.parent
            if parent == state_parent():
                continue  # swept already, or alive
            if run.life == "dead" and everything:
                if parent.is_dir() and parent.stat().st_uid == os.getuid():
                    sweep(parent)  # its disks and its folder, too
                for what in remove_run(engine, run.labels):
                    yield Remainder(f"removed {what} from the Docker engine", is_left=True)
            else:
                line = f"the Docker engine has {run}; {_WHY_IT_STAYS[run.life]}"
                yield Remainder(line, is_left=run.life != "alive")
        if not everything:
            return
        if alive := [run.run_id for run in held_runs(engine) if run.life != "dead"] + live_runs(state_parent()):
            line = f"images stay as long as a run may use them: {', '.join(dict.fromkeys(alive))}"
            yield Remainder(line, is_left=True)
            return
        yield from (Remainder(line, is_left=True) for line in remove_images(engine))

    def examine(self, server: str) -> Ability:
        """Found out by having the engine host a small cluster."""
        from cluster.credentials import Access
        from cluster.engine_trial import USE_ANOTHER, UnfitEngineError, engine_facts, try_engine
        from cluster.programs import find_server, find_toxiproxy
        from cluster.spec import ClusterSpec

        title = "Docker engine"
        try:
            engine = find_engine()
            facts = engine_facts(engine)
            found = f"{facts.get('ServerVersion')} at {engine}"
            try:
                program = find_server(server)
                access = Access.fresh(closed=True)
                spec = ClusterSpec(program, program, find_toxiproxy(), ("n1",), ("c1",), access=access)
            except FencepostError:
                return Ability(title, False, f"{found}, not tried without the programs", SET_UP)
            try_engine(engine, facts, spec)
        except UnfitEngineError as error:
            return Ability(title, False, error.found, USE_ANOTHER)
        except NoEngineError as error:
            debian_root = os.geteuid() == 0 and Path("/etc/debian_version").exists()
            fix = (
                "make setup-docker"
                if debian_root and IS_CLONE and engine.is_default
                else "start an engine that this user may use, or use --cluster process"
            )
            return Ability(title, False, error.found, fix)
        except BrokenEnvironmentError as error:
            return Ability(title, False, str(error), "see there")
        return Ability(title, True, f"{found}, a small cluster came up")

    def whereabouts(self, site: Site) -> str:
        return f"in containers of the Docker engine at {Engine.of(site)}"

    def variables(self, site: Site) -> Mapping[str, str]:
        """`docker ps` then shows the run's containers."""
        return Engine.of(site).variables


def _no_members(spec: ClusterSpec) -> str | None:
    """Why containers cannot be the members of a group here."""
    from cluster.system_tools import find_tool

    program = spec.server
    if spec.disks is not None:
        return f"the members of a group ({program.name}) have no disks of their own in containers"
    if os.geteuid():
        return f"only root may cut the members of a group ({program.name}) from each other in containers"
    try:
        find_tool("iptables-restore")
    except BrokenEnvironmentError as error:
        return str(error)
    return None


BACKEND = Containers()
