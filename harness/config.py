"""`RunConfig`: everything that decides what a run does, as one frozen value, checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from cluster.backend_registry import AUTO, choices
from cluster.persistence import FileSystem, Policy
from cluster.registry import servers
from cluster.spec import Replication, sentinels_of
from fencepost.errors import UsageError
from fencepost.history import task_names
from fencepost.options import Option, check_bounds
from fencepost.setup.machine import IS_CLONE
from harness.limits import Limit
from harness.promises import LOCK, ONE_OR_MORE, required
from workloads.kinds import find_workload
from workloads.options import ClientOptions

RESULTS: Final = Path("results/runs" if IS_CLONE else "fencepost-runs")
"""Where runs are kept, relative to the working directory, unless `--results` says otherwise."""
REPORTS: Final = Path("results/reports")
"""Where campaigns keep their reports, relative to the working directory, unless `--report` says otherwise."""

Seed = Annotated[
    int,
    Option(
        "--seed",
        "same seed, same schedule",
        "faults",
        low=0,
        high=2**63 - 1,
        shown_default="random, printed",
        commands=(),
    ),
]
HABITS: Final = ("tasks", "odd-ttl", "kept-data", "shared-prefix", "overstay", "forget", "cancel", "two-keys", "reopen")
"""How clients may use the lock (`harness.habits`)."""
NO_HABITS: Final = "none"
DRAWN_HABITS: Final = "drawn"
_REPEATED = ("compare", "replay", "script")
_FLOORS_OF = ("compare", "replay")


def _floor(flag: str, falls_short: str) -> Option:
    """A share, in percent, of what a run has to show."""
    told = f"the run is unknown if {falls_short}"
    return Option(flag, told, "the verdict", "PERCENT", low=0, high=100, commands=_FLOORS_OF)


class RunConfig(ClientOptions, frozen=True, kw_only=True):
    """One run: the options of its clients (`workloads.options`), and these. Durations in milliseconds.

    `schedule`: a saved schedule, which replaces `nemesis`. `disks`: each node has a small file system (`disk_fs`) of
    its own, whose power can be cut; a schedule with power cuts brings them unasked. `clocks`: each node and each client
    has a wall clock of its own, which can be set; a schedule with wrong clocks brings them unasked. `witness`: whether
    the nodes' keys are watched (`harness.run.witness`). `wire`: whether the proxy records what goes over the links
    (`harness.store.wire`). `least_faults` … `most_starved`: the floors below which too little of a run could be
    judged (`harness.checkers.evidence`). `limits`: what decides the exit code beside the verdict. `nodes_at`: servers
    that are not the run's own, without their passwords (`harness.run.lent_nodes`).
    """

    name: Annotated[
        str | None,
        Option(
            "--name",
            "what the lock is called in folders, tables and reports; default for a command: the command line",
            "what is tested",
            pattern=(
                r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}",
                "1 to 40 letters, digits or . _ + -, not beginning with a sign",
            ),
            commands=_REPEATED,
        ),
    ] = None
    require: Annotated[
        str,
        Option(
            "--require",
            "promises that must be kept: lock (no finding may blame the lock), exclusion, lease, liveness, data; "
            "joined by +",
            "what is tested",
            "PROMISES",
            pattern=ONE_OR_MORE,
            commands=("compare", "replay"),
        ),
    ] = LOCK
    least_faults: Annotated[
        float,
        _floor("--least-faults", "a smaller share of the injected faults was verified active"),
    ] = 75
    least_reach: Annotated[
        float,
        _floor("--least-reach", "some client could certainly reach a majority for a smaller share of the load"),
    ] = 5
    least_sections: Annotated[
        int,
        Option(
            "--least-sections",
            "the run is unknown with fewer critical sections; in a short load, with fewer than a tenth of what would "
            "fit",
            "the verdict",
            low=0,
            high=10**6,
            commands=_FLOORS_OF,
        ),
    ] = 20
    most_empty: Annotated[
        float,
        _floor("--most-empty", "no client was inside for a longer time in one piece, as a share of the load"),
    ] = 75
    most_starved: Annotated[
        float,
        _floor("--most-starved", "the harness or a client was starved of CPU for a larger share of the load"),
    ] = 35
    limits: Annotated[
        tuple[Limit, ...],
        Option(
            "--limit",
            "a threshold of your own, like 'acquire p99 < 200ms' or 'lost updates = 0'; a run that misses it ends with "
            "exit code 1; may be given again",
            "the verdict",
            "LIMIT",
            commands=("replay",),
        ),
    ] = ()
    clients: Annotated[int, Option("--clients", "client processes", "load", low=1, high=256)] = 10
    load: Annotated[
        Literal["plain", "drawn"] | None,
        Option(
            "--load",
            "plain: the options of the load hold for the whole run; drawn: what they leave open is drawn from the seed "
            "anew every few TTLs",
            "load",
            shown_default="drawn with a mix of faults like standard, else plain",
        ),
    ] = None
    habits: Annotated[
        str | None,
        Option(
            "--habits",
            "how clients use the lock (docs/workloads.md#habits): none, drawn from the seed, or by name, joined by +",
            "load",
            "NAMES",
            pattern=(
                f"{NO_HABITS}|{DRAWN_HABITS}|(?:{'|'.join(HABITS)})(?:[+](?:{'|'.join(HABITS)}))*",
                f"{NO_HABITS}, {DRAWN_HABITS}, or of {', '.join(HABITS)} one or several joined by +",
            ),
            shown_default="drawn with a mix of faults like standard, else none",
        ),
    ] = None
    duration_ms: Annotated[
        float, Option("--duration", "load under faults", "load", low=100, high=24 * 3_600_000, unit="s")
    ] = 30_000
    recovery_ms: Annotated[
        float, Option("--recovery", "load after everything is healed", "load", low=0, high=3_600_000, unit="s")
    ] = 3_000
    nemesis: Annotated[
        str,
        Option("--nemesis", "which faults: nemeses joined by + (docs/nemeses.md)", "faults", "SPEC", replayed=False),
    ] = "partition"
    seed: Seed
    schedule: Annotated[
        str | None,
        Option("--schedule", "play a saved schedule.json; replaces --nemesis", "faults", "FILE"),
    ] = None
    cluster: Annotated[
        str,
        Option(
            "--cluster",
            "where servers run",
            "cluster",
            choices=choices,
            commands=(*_REPEATED, "shrink", "mutants", "claims", "survey", "nightly"),
        ),
    ] = AUTO
    nodes: Annotated[int, Option("--nodes", "lock servers", "cluster", low=1, high=9)] = 5
    nodes_at: Annotated[
        str | None,
        Option(
            "--nodes-at",
            "servers of your own as nodes, which only faults of links and clients touch: "
            "redis://host:port or rediss://user:password@host:port, joined by commas (docs/your-servers.md)",
            "cluster",
            "URLS",
            commands=("replay",),
        ),
    ] = None
    nodes_ca: Annotated[
        str | None,
        Option(
            "--nodes-ca",
            "the authority of the certificates of rediss:// servers, in PEM",
            "cluster",
            "FILE",
            shown_default="those of this machine",
            commands=("replay",),
        ),
    ] = None
    nodes_with_data: Annotated[
        bool,
        Option("--nodes-with-data", "let the servers of --nodes-at hold other keys", "cluster", commands=("replay",)),
    ] = False
    server: Annotated[
        str,
        Option(
            "--server",
            "what nodes run: a server's name, a program's path, redis=PATH or redis=image:REFERENCE",
            "cluster",
            "NAME",
            commands=_REPEATED,
        ),
    ] = "redis"
    resource_server: Annotated[
        str,
        Option(
            "--resource-server",
            "what the resource runs, in the same forms",
            "cluster",
            "NAME",
            commands=_REPEATED,
        ),
    ] = "redis"
    persistence: Annotated[
        Policy, Option("--persistence", "what a node keeps on disk", "cluster", commands=_REPEATED)
    ] = "none"
    replication: Annotated[
        Replication,
        Option(
            "--replication",
            "manual: n1 is a primary and the other nodes are its replicas; sentinel: and three sentinels replace one "
            "that is down",
            "cluster",
            commands=("compare", "script"),
        ),
    ] = "none"
    disks: Annotated[
        bool, Option("--disks", "a file system for each node (needs root); implied by power cuts", "cluster")
    ] = False
    disk_fs: Annotated[
        FileSystem, Option("--disk-fs", "the kind of file system", "cluster", commands=("compare", "script"))
    ] = "ext4"
    clocks: Annotated[
        bool,
        Option("--clocks", "a wall clock of its own for each node and client; implied by the nemesis clock", "cluster"),
    ] = False
    witness: Annotated[
        Literal["on", "off"], Option("--witness", "whether the keys on the nodes are watched", "cluster")
    ] = "on"
    wire: Annotated[
        Literal["on", "off"],
        Option("--wire", "whether the requests over the links are recorded", "cluster"),
    ] = "on"

    def check(self) -> None:
        """Raise UsageError, naming the option, for what cannot mean anything."""
        check_bounds(self)
        workload = find_workload(self.workload)
        workload.check(self)
        if "data" in required(self.require) and not workload.guards_data:
            raise UsageError(f"--require data means nothing to --workload {self.workload}, which writes no data")
        if self.ttl_ms < self.node_timeout_ms:
            raise UsageError(
                f"--ttl {self.ttl_ms} ms is shorter than --node-timeout {self.node_timeout_ms:g} ms: one slow node "
                "would use up the whole lease; raise --ttl or lower --node-timeout"
            )
        if self.rivals > 512:
            raise UsageError(
                f"{self.clients} clients × {self.tasks} tasks are more than 512; lower --tasks or --clients"
            )
        dialled = self.nodes + 1 + len(self.sentinel_names)
        if self.clients * dialled > 2_000:
            raise UsageError(f"{self.clients} clients × {dialled} servers are more than 2000 links; lower --clients")
        if self.replication != "none" and self.nodes < 2:
            raise UsageError(f"--replication {self.replication}: one node has no replica; raise --nodes")
        if self.replication != "none" and self.witness == "on":
            raise UsageError(
                f"--replication {self.replication}: the copies of replicas would be taken for votes of theirs; add "
                "--witness off"
            )

    @property
    def lock_name(self) -> str:
        """What the lock under test is called."""
        return self.name or self.lock_command or self.lock

    @property
    def sentinel_names(self) -> tuple[str, ...]:
        """The sentinels that watch the nodes."""
        server = servers().get(self.server.partition("=")[0])
        return sentinels_of(self.replication, self.node_names, server.group if server else None)

    @property
    def client_names(self) -> tuple[str, ...]:
        """The client processes."""
        return tuple(f"c{i}" for i in range(1, self.clients + 1))

    @property
    def user_names(self) -> tuple[str, ...]:
        """Who uses the lock: the clients, or their tasks if they have several, or two of each that holds two keys."""
        return tuple(name for client in self.client_names for name in task_names(client, self.users_per_client))

    @property
    def rivals(self) -> int:
        """How many may want a key at once: a task wants one at a time."""
        return self.clients * self.tasks

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{i}" for i in range(1, self.nodes + 1))
