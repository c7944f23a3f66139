"""Servers that are the user's own (`--nodes-at`): a run reaches them over its links and does nothing else to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cluster.backend import Backend
from cluster.site import Site, UnavailableError
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from cluster.base import Cluster
    from cluster.lifetime import StateFolder
    from cluster.spec import ClusterSpec


class Elsewhere(Backend):
    """Only for a user who names the servers. The run itself is in a sandbox, and the relay outside of it
    (`cluster.relay`) is its only way out: so no other program of this machine gets at the servers through the run."""

    name: ClassVar[str] = "elsewhere"
    words: ClassVar[str] = "of yours"

    def find_site(self, spec: ClusterSpec, *, is_asked: bool) -> Site:
        from cluster.sandbox import why_not

        if not spec.server.is_elsewhere:
            raise UsageError(
                f"--cluster {self.name} is for servers of yours; name them with --nodes-at redis://host:port"
            )
        if (refused := why_not()) is not None:
            raise UnavailableError(
                "--nodes-at needs namespaces, without which every user of this machine could reach your servers "
                f"through the run, and this machine refuses them ({refused})",
                "use a machine that allows them",
            )
        return Site(self.name, in_sandbox=True)

    def open_cluster(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None) -> Cluster:
        from cluster.elsewhere import ElsewhereCluster

        return ElsewhereCluster(spec, state, log_dir, wire)


BACKEND = Elsewhere()
