"""`environment.json`: on what the run was made."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from cluster.backend_registry import backend_named
from cluster.base import RESOURCE, Cluster
from cluster.persistence import Policy
from cluster.server import Server
from cluster.spec import RESOURCE_POLICY
from fencepost.errors import BrokenEnvironmentError
from fencepost.extensions import extension_folders

_PACKAGES = ("redis", "hiredis", "toxiproxy-python", "pandas", "numpy", "msgspec", "pyarrow")


def describe_environment(
    cluster: Cluster, lock: Mapping[str, object], overhead_us: Mapping[str, float], policy: Policy
) -> dict[str, object]:
    """Versions, the machine, the revision, the servers' effective configuration, the lock and the cost of the proxy.

    Raises BrokenEnvironmentError if a server does not keep its data as `policy` says.
    """
    configs = {}
    for name, node in {**cluster.nodes, RESOURCE: cluster.resource}.items():
        configs[name] = dict(node.effective_config())
        check_persistence(name, node.server, RESOURCE_POLICY if name == RESOURCE else policy, configs[name])
    return {
        "fencepost": version("fencepost"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in (*_PACKAGES, *backend_named(cluster.backend).packages)},
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "revision": revision(),
        "extensions": [str(folder) for folder in extension_folders()],
        "cluster": {"backend": cluster.backend, **cluster.environment(), **_footprint(cluster)},
        "lock": dict(lock),
        "proxy_overhead_us": dict(overhead_us),
        "servers": configs,
    }


def _footprint(cluster: Cluster) -> dict[str, object]:
    """Of the lock's servers, before the load; nothing where it is not known."""
    found = {name: node.footprint() for name, node in {**cluster.nodes, **cluster.sentinels}.items()}
    known = {name: each._asdict() for name, each in found.items() if each is not None}
    return {"footprint": known} if known else {}


def check_persistence(name: str, server: Server, policy: Policy, effective: Mapping[str, str]) -> None:
    """Raise BrokenEnvironmentError unless the server of that name runs with the policy that was asked for."""
    if wrong := server.config_mismatch(policy, effective):
        raise BrokenEnvironmentError(f"{name} was asked for persistence {policy}, but {wrong}")


def revision() -> dict[str, object]:
    """The git revision of this checkout and whether it has uncommitted changes; empty outside of one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return {}
    try:
        return {"commit": _git(root, "rev-parse", "HEAD"), "dirty": bool(_git(root, "status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}


def _git(root: Path, *words: str) -> str:
    """The checkout may belong to another user: this process runs its code already."""
    trusting = ["git", "-C", str(root), "-c", "safe.directory=*"]
    return subprocess.run([*trusting, *words], capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def revision_in_words() -> str:
    """`1a2b3c4d5e6f`, with `+` where there are changes that are not committed; empty outside of a checkout."""
    known = revision()
    return f"{str(known['commit'])[:12]}{'+' if known['dirty'] else ''}" if known else ""
