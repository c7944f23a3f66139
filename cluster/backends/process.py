"""Servers as processes of this machine, in namespaces of their own where it allows that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cluster.backend import Backend
from cluster.site import Site, UnavailableError
from fencepost.errors import BrokenEnvironmentError, UsageError

if TYPE_CHECKING:
    from cluster.base import Cluster
    from cluster.lifetime import StateFolder
    from cluster.spec import ClusterSpec


class Processes(Backend):
    """Every machine can have them, so `auto` tries them last."""

    name: ClassVar[str] = "process"
    words: ClassVar[str] = "as processes"
    rank: ClassVar[int | None] = 100

    def find_site(self, spec: ClusterSpec, *, is_asked: bool) -> Site:
        from cluster.sandbox import why_not

        if image := spec.server.image or spec.resource_server.image:
            raise UsageError(f"the image {image} needs a container; use --cluster docker, or name a program's path")
        refused = why_not()
        if spec.group:
            _check_group(spec.server.name, refused)
        return Site(self.name, in_sandbox=refused is None, no_sandbox=refused)

    def open_cluster(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None) -> Cluster:
        from cluster.process import ProcessCluster

        return ProcessCluster(spec, state, log_dir, wire)


def _check_group(server: str, refused: str | None) -> None:
    """Raises UnavailableError if members of a group cannot have networks of their own here."""
    from cluster.system_tools import find_tool

    whose = f"each member of a group ({server}) needs a network namespace of its own"
    if refused is not None:
        raise UnavailableError(f"{whose}, and this machine refuses them ({refused})", "use a machine that allows them")
    try:
        for tool in ("ip", "iptables-restore"):
            find_tool(tool)
    except BrokenEnvironmentError as error:
        found, _, do = str(error).partition("; ")
        raise UnavailableError(f"{whose}, but there is {found}", do) from error


BACKEND = Processes()
