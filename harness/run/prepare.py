"""From a configuration to a run that can start: everything that can be checked beforehand is checked here."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console

from cluster.disk import check_disks, sweep_disks
from cluster.programs import find_server, find_toxiproxy
from cluster.sandbox import why_not
from cluster.spec import ClusterSpec
from cluster.sweep import sweep
from fencepost.errors import BrokenEnvironmentError, UsageError
from harness.config import ClusterChoice, RunConfig
from harness.run.scheduled import Prepared
from harness.run.setup import ClusterKind, Setup
from nemesis.base import Topology
from nemesis.schedule import Schedule, draw_schedule, load_schedule, needs_disks, parse_spec
from workloads.registry import check_lock


def prepare(config: RunConfig) -> Prepared:
    """Check the rest of the configuration of a random run and find the programs. Raises UsageError or
    BrokenEnvironmentError; nothing has been started by then."""
    spec = parse_spec(config.nemesis)
    topology = Topology(config.client_names, config.node_names, config.ttl_ms)
    if config.schedule is not None:
        schedule = load_schedule(Path(config.schedule), topology)
        config = msgspec.structs.replace(config, nemesis=schedule.spec)
    else:
        schedule = draw_schedule(spec, config.seed, topology, config.duration_ms)
    return Prepared(prepare_setup(_with_disks(config, schedule)), schedule)


def prepare_setup(config: RunConfig) -> Setup:
    """Check the lock and find the programs, for any kind of run. Raises UsageError or BrokenEnvironmentError."""
    check_lock(config.lock, config.lock_command)
    server = find_server(config.server)
    toxiproxy = find_toxiproxy()
    backend = choose_backend(config.cluster)
    if config.disks:
        check_disks(config.disk_fs)
    spec = ClusterSpec(
        server,
        toxiproxy,
        config.node_names,
        config.client_names,
        config.persistence,
        config.disk_fs if config.disks else None,
    )
    return Setup(config, backend, spec, why_not() if backend == "process" else None)


def _with_disks(config: RunConfig, schedule: Schedule) -> RunConfig:
    """The configuration with disks if the schedule needs them. Raises UsageError if their kind was chosen in vain."""
    config = msgspec.structs.replace(config, disks=config.disks or needs_disks(schedule))
    if not config.disks and config.disk_fs != RunConfig(seed=0).disk_fs:
        raise UsageError(
            f"--disk-fs {config.disk_fs} changes nothing, because this run has no separate disks; "
            "add --disks or --nemesis power"
        )
    return config


def choose_backend(choice: ClusterChoice) -> ClusterKind:
    """`auto` is containers if a Docker engine answers, else processes. Raises BrokenEnvironmentError for `docker`
    without an engine."""
    if choice == "process":
        return "process"
    from cluster.engine import engine_answers

    if engine_answers():
        return "docker"
    if choice == "docker":
        raise BrokenEnvironmentError(
            "no Docker engine answers; start it, run `make setup-docker` (Debian, as root), or use --cluster process"
        )
    return "process"


def remove_leftovers(out: Console) -> bool:
    """Sweep what dead runs left behind and say what that was. Whether there was anything."""
    from cluster.engine import sweep_docker

    swept = sweep([sweep_docker, sweep_disks])  # disks last: a container may still use one
    for run in swept.runs:
        ended = f", ended {', '.join(run.processes)}" if run.processes else ""
        out.print(f"a dead run left something behind: removed {run.folder}{ended}", markup=False, soft_wrap=True)
    for line in swept.others:
        out.print(f"a dead run left something behind: {line}", markup=False, soft_wrap=True)
    return bool(swept.runs or swept.others)
