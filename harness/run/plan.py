"""What was decided before a run starts, and what the process in the sandbox is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cluster.backend_registry import backend_named
from cluster.base import Cluster
from cluster.lifetime import StateFolder
from cluster.site import Site
from cluster.spec import ClusterSpec
from harness.config import RunConfig
from nemesis.base import Topology
from nemesis.schedule import Schedule


def topology_of(config: RunConfig) -> Topology:
    """What faults are drawn over."""
    return Topology(config.client_names, config.node_names, config.ttl_ms)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a run stands on, decided and checked before anything is started. It is data, so that it can be sent to the
    process that makes the run."""

    config: RunConfig
    spec: ClusterSpec
    site: Site

    @property
    def is_watched(self) -> bool:
        """Whether the keys on the nodes are watched."""
        return self.config.witness == "on" and self.spec.server.server.key_events is not None

    def open_cluster(self, state: StateFolder, log_dir: Path, wire: Path) -> Cluster:
        """The cluster, not started. `wire`: the folder for what goes over the links."""
        recorded = wire if self.config.wire == "on" else None
        return backend_named(self.site.backend).open_cluster(self.spec, state, log_dir, recorded)

    def isolation(self) -> dict[str, str]:
        """For `environment.json`: what keeps other programs on this machine away from the run's servers."""
        if self.site.in_sandbox:
            return {"by": "namespaces"}
        servers = (self.spec.server.server, self.spec.resource_server.server)
        by = "passwords" if all(server.takes_logins for server in servers) else "nothing"
        return {"by": by} if self.site.no_sandbox is None else {"by": by, "refused": self.site.no_sandbox}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the process in the sandbox needs to make any run. `folder`: the run's; `state`: its state folder."""

    setup: Setup
    folder: Path
    state: Path


class ScheduledJob(Job, frozen=True, kw_only=True):
    schedule: Schedule
