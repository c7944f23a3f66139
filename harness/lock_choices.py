"""What the lock under test decides of its run: server, number of nodes, workload, persistence, tasks."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from cluster.registry import servers
from fencepost.errors import UsageError
from fencepost.options import declared
from harness.config import RunConfig
from workloads.manifest import Manifest
from workloads.registry import manifest_of


def with_lock_choices(config: RunConfig, given: Collection[str] = ()) -> RunConfig:
    """The configuration with the server, the number of nodes and the workload that the lock's manifest names, and with
    the server's own persistence, where the usual ones were not replaced. `given`: the fields that the user named; these
    are refused and never replaced. Raises UsageError for what does not fit."""
    manifest, usual = _manifest(config), RunConfig(seed=0)
    wanted = {name: getattr(manifest, name, None) for name in ("server", "nodes", "workload")}
    for name, value in wanted.items():
        if value and getattr(config, name) == getattr(usual, name):
            config = _replaced(config, name, value, given, f"{config.lock} needs {value}")
    if manifest and manifest.nodes and config.nodes != manifest.nodes:
        raise UsageError(f"--nodes {config.nodes}: {config.lock} uses {manifest.nodes}; write --nodes {manifest.nodes}")
    if manifest and manifest.tasks and config.tasks > manifest.tasks:
        raise UsageError(
            f"--tasks {config.tasks}: tasks of a client cannot share {config.lock}; leave --tasks out, raise --clients"
        )
    if config.persistence == usual.persistence and config.server in servers():
        policies = servers()[config.server].policies
        if config.persistence not in policies:
            why = f"the server {config.server} offers only {', '.join(policies)}"
            config = _replaced(config, "persistence", policies[0], given, why)
    config.check()
    return config


def _manifest(config: RunConfig) -> Manifest | None:
    """None for a lock that is not known, too: `check_lock` says so."""
    try:
        return manifest_of(config.lock, config.lock_command)
    except UsageError:
        return None


def _replaced(config: RunConfig, name: str, value: object, given: Collection[str], why: str) -> RunConfig:
    if name in given and value != getattr(config, name):
        flag = next(each.flag for each in declared(RunConfig) if each.field == name)
        raise UsageError(f"{flag} {getattr(config, name)}: {why}; leave {flag} out, or write {flag} {value}")
    return msgspec.structs.replace(config, **{name: value})
