"""From a configuration to a run that can start: everything that can be checked beforehand is checked here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console

from cluster.backend_registry import choose_site, sweepers
from cluster.credentials import Access
from cluster.disk import check_disks
from cluster.programs import ServerProgram, find_server, find_toxiproxy
from cluster.registry import server_named
from cluster.server import Server
from cluster.spec import RESOURCE_POLICY, ClusterSpec
from cluster.sweep import Swept, sweep
from cluster.wall_clock import find_clock_library
from fencepost.errors import UsageError
from harness.checkers import check_checkers, check_measured
from harness.config import RunConfig
from harness.lock_choices import with_lock_choices
from harness.run.lent_nodes import lent_program, with_lent_nodes
from harness.run.limits import check_limits
from harness.run.plan import Setup, topology_of
from harness.run.scheduled import Prepared
from nemesis.schedule import (
    Schedule,
    check_server,
    check_spec,
    draw_schedule,
    for_cluster,
    left_out,
    load_schedule,
    needs_clocks,
    needs_disks,
    parse_spec,
)
from workloads.kinds import find_workload
from workloads.registry import (
    check_asks_nobody,
    check_can_be_cancelled,
    check_holds_two_keys,
    check_lets_readers_in,
    check_lock,
    check_renews,
    check_runs_statements,
    manifest_of,
)


def prepare(config: RunConfig, nodes_at: str | None = None) -> Prepared:
    """Check the rest of the configuration of a random run and find the programs. `nodes_at`: as the user wrote it, with
    passwords. Raises UsageError or BrokenEnvironmentError; nothing has been started by then."""
    config, lent = with_lent_nodes(config, nodes_at)
    if config.replication == "manual":
        raise UsageError("--replication manual is for scripts, because nothing else promotes a replica; write sentinel")
    spec = parse_spec(config.nemesis)
    config = with_lock_choices(config)
    check_input(config)
    topology = topology_of(config)
    program = lent_program(lent, with_data=config.nodes_with_data) if lent else find_server(config.server)
    missing: tuple[str, ...] = ()
    if config.schedule is not None:
        schedule = load_schedule(Path(config.schedule), topology)
        config = msgspec.structs.replace(config, nemesis=schedule.spec)
    else:
        missing = left_out(spec, program.server, topology)
        check_spec(spec, program.server, topology)
        fitting = for_cluster(spec, program.server, topology)
        schedule = draw_schedule(fitting, config.seed, topology, config.duration_ms)
    config = msgspec.structs.replace(config, clocks=config.clocks or needs_clocks(schedule))
    check_server(schedule, program.server, config.persistence)
    setup = find_programs(_with_disks(config, schedule), program)
    return Prepared(setup, schedule, missing, lent)


def prepare_setup(config: RunConfig) -> Setup:
    """Check the configuration and find the programs, for a run without a schedule. Raises UsageError or
    BrokenEnvironmentError."""
    if config.nodes_at is not None:
        raise UsageError(
            "--nodes-at is for runs of `fencepost test`: the steps of a script act on nodes of the run's own"
        )
    config = with_lock_choices(config)
    check_input(config)
    return find_programs(config)


def _check_speaks(config: RunConfig, server: Server) -> None:
    """Raises UsageError for a lock and a server that do not speak the same protocol. One of the user's own may speak
    anything."""
    if config.lock_command is not None or ":" in config.lock:
        return
    manifest = manifest_of(config.lock, None)
    runs_on = server_named((manifest and manifest.server) or RunConfig(seed=0).server)
    if server.family != runs_on.family:
        raise UsageError(f"--lock {config.lock} runs on {runs_on.name}, and --server {config.server} is {server.name}")


def check_input(config: RunConfig) -> None:
    """Check what needs no server and no proxy. Raises UsageError or BrokenEnvironmentError."""
    check_limits(config)
    check_checkers(config.workload)
    check_measured(config)
    check_lock(config.lock, config.lock_command)
    if config.renewal_ms is not None:
        check_renews(config.lock, config.lock_command)
    if config.cancel:
        check_can_be_cancelled(config.lock, config.lock_command)
    if config.two_keys:
        check_holds_two_keys(config.lock, config.lock_command)
    if find_workload(config.workload).readers:
        check_lets_readers_in(config.lock, config.lock_command)
    if find_workload(config.workload).tables is not None:
        check_runs_statements(config.lock, config.lock_command, config.workload)
    if not config.sentinel_names:
        check_asks_nobody(config.lock, config.lock_command)


def find_programs(config: RunConfig, program: ServerProgram | None = None) -> Setup:
    """Find the programs, for any kind of run. `program`: that of the nodes, if it is known. Raises UsageError or
    BrokenEnvironmentError."""
    server, resource_server = _find_servers(config, program or find_server(config.server))
    spec = ClusterSpec(
        server,
        resource_server,
        find_toxiproxy(),
        config.node_names,
        config.client_names,
        config.persistence,
        config.replication,
        config.disk_fs if config.disks else None,
        find_clock_library() if config.clocks else None,
        access=Access.fresh(closed=True),
    )
    if config.disks:
        check_disks(config.disk_fs)
    site = choose_site(config.cluster, spec)
    if site.in_sandbox:
        spec = replace(spec, access=Access.fresh(closed=False))
    return Setup(config, spec, site)


def _find_servers(config: RunConfig, program: ServerProgram) -> tuple[ServerProgram, ServerProgram]:
    """The programs of the nodes and of the resource. Raises UsageError if one cannot do what the run asks of it."""
    _check_speaks(config, program.server)
    if config.persistence not in program.server.policies:
        raise UsageError(
            f"--persistence {config.persistence}: the server {program.name} does not offer it; choose one of "
            f"{', '.join(program.server.policies)}, or another --server"
        )
    if find_workload(config.workload).tables is not None:
        _check_keeps_data(config, program)
    if config.replication != "none" and program.server.group is not None:
        raise UsageError(f"--replication {config.replication}: {program.name} is a group already; leave it out")
    if config.replication == "sentinel" and program.server.sentinel is None:
        raise UsageError(f"--replication sentinel: the server {program.name} has no sentinel; choose another --server")
    resource = find_server(config.resource_server, "--resource-server")
    if not resource.server.is_scriptable or RESOURCE_POLICY not in resource.server.policies:
        raise UsageError(
            f"--resource-server {config.resource_server}: a resource must run Lua scripts and offer the persistence "
            f"{RESOURCE_POLICY}, but {resource.name} does not; choose another one, like redis"
        )
    return program, resource


def _check_keeps_data(config: RunConfig, program: ServerProgram) -> None:
    """Raises UsageError unless the data of a workload can be in the lock's own database, and stay there."""
    if program.server.query is None:
        raise UsageError(
            f"--workload {config.workload}: its data is in the lock's own database, and the server {program.name} is "
            "none; choose a lock like postgres-transaction"
        )
    if config.nodes != 1:
        raise UsageError(f"--nodes {config.nodes}: --workload {config.workload} needs --nodes 1")


def _with_disks(config: RunConfig, schedule: Schedule) -> RunConfig:
    """The configuration with disks if the schedule needs them. Raises UsageError if their kind was chosen in vain."""
    config = msgspec.structs.replace(config, disks=config.disks or needs_disks(schedule))
    if not config.disks and config.disk_fs != RunConfig(seed=0).disk_fs:
        raise UsageError(
            f"--disk-fs {config.disk_fs} changes nothing, because this run has no separate disks; "
            "add --disks or --nemesis power"
        )
    return config


def remove_leftovers(out: Console, parent: Path | None = None) -> Swept:
    """Sweep what dead runs left behind, and say what that was. `parent`: where their state folders are; by default
    where this user's runs with this TMPDIR have theirs.

    What cannot be removed is said too, and stops no run: no run shares anything with it.
    """
    swept = sweep(sweepers(parent), parent=parent)
    for run in swept.runs:
        ended = f", ended {', '.join(run.processes)}" if run.processes else ""
        out.print(f"a dead run left something behind: removed {run.folder}{ended}", soft_wrap=True)
    for line in swept.others:
        out.print(f"a dead run left something behind: {line}", soft_wrap=True)
    for line in swept.stuck:
        out.print(f"a dead run left something behind that cannot be removed: {line}", soft_wrap=True)
    for line in swept.unasked:
        out.print(f"what dead runs left there is not known: {line}", soft_wrap=True)
    return swept
