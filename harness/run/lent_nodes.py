"""`--nodes-at`: nodes that are servers of the user's own, from the words of the command line to the end of the run."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from cluster.lent_servers import OWN_PREFIX, delete_keys, examine
from cluster.lifetime import StateFolder
from cluster.programs import ServerProgram, find_toxiproxy
from cluster.registry import server_named, servers
from cluster.relay import relay
from cluster.upstream import Upstream, shown, upstreams_in
from fencepost.errors import BrokenEnvironmentError, UsageError
from harness.config import RunConfig
from workloads.registry import manifest_of

ELSEWHERE: Final = "elsewhere"
"""The name of the backend (`cluster.backends.elsewhere`)."""
_NOT_OURS: Final = {
    "server": "they run what they run",
    "persistence": "what they keep on disk is theirs to say",
    "disks": "their disks are not the run's",
    "disk_fs": "their disks are not the run's",
    "replication": "what they are to each other is theirs to say",
}


def with_lent_nodes(config: RunConfig, told: str | None) -> tuple[RunConfig, tuple[Upstream, ...]]:
    """The configuration and the servers, if there are any. `told`: what the user wrote, with passwords; the
    configuration has none. The keys of each run have names of their own. Raises UsageError."""
    if config.nodes_at is None:
        if config.nodes_with_data or config.nodes_ca is not None:
            option = "--nodes-with-data" if config.nodes_with_data else "--nodes-ca"
            raise UsageError(f"{option} is about servers of your own; name them with --nodes-at")
        return config, ()
    usual = RunConfig(seed=0)
    found = upstreams_in(told or config.nodes_at, config.nodes_ca)
    _check_lock(config, len(found))
    for field, why in _NOT_OURS.items():
        if getattr(config, field) != getattr(usual, field):
            raise UsageError(f"--{field.replace('_', '-')} cannot be set for the servers of --nodes-at: {why}")
    if config.cluster not in (usual.cluster, ELSEWHERE):
        raise UsageError(f"--cluster {config.cluster} is where the run starts servers; leave it out with --nodes-at")
    if config.nodes not in (usual.nodes, len(found)):
        raise UsageError(f"--nodes {config.nodes}: --nodes-at names {len(found)}; leave out --nodes")
    changed = {
        "cluster": ELSEWHERE,
        "nodes": len(found),
        "nodes_at": shown(found),
        "key_prefix": f"{OWN_PREFIX}{secrets.token_hex(4)}:",
    }
    return msgspec.structs.replace(config, **changed), found


def _check_lock(config: RunConfig, servers_named: int) -> None:
    """Raises UsageError for a lock that runs on another kind of server, or on another number of them."""
    manifest = manifest_of(config.lock, config.lock_command)
    if manifest is None:
        return
    if manifest.server and server_named(manifest.server).elsewhere is None:
        raise UsageError(f"--lock {config.lock} runs on {manifest.server}, and --nodes-at names servers like Redis")
    if manifest.nodes and manifest.nodes != servers_named:
        raise UsageError(f"--lock {config.lock} uses {manifest.nodes}, and --nodes-at names {servers_named}")


def lent_program(found: Sequence[Upstream], *, with_data: bool) -> ServerProgram:
    """What the servers run, once they were asked. Raises UsageError for one that a run may not have."""
    known = examine(found, with_data=with_data)
    product = known[0].product if known[0].product in servers() else "redis"
    versions = " and ".join(dict.fromkeys(each.version for each in known))
    return ServerProgram(Path(), product, versions, is_elsewhere=True)


@contextmanager
def lending(config: RunConfig, found: Sequence[Upstream], state: StateFolder, logs: Path) -> Iterator[None]:
    """While a run has these servers, which is over when this is left; then its keys are deleted, and no others. Raises
    BrokenEnvironmentError if the run has no way to them, or if keys are left."""
    if not found:
        yield
        return
    with relay(find_toxiproxy().path, dict(zip(config.node_names, found, strict=True)), state, logs / "relay.log"):
        yield
    for server in found:
        try:
            delete_keys(server, config.key_prefix)
        except UsageError as error:
            raise BrokenEnvironmentError(
                f"keys of the run are left, with {config.key_prefix} in their names, because {error}"
            ) from error
