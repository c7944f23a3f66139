"""`RunConfig`: everything that decides what a run does, as one frozen value, checked before anything starts."""

from __future__ import annotations

from typing import Literal

import msgspec

from cluster.disk import FileSystem
from cluster.persistence import Policy
from fencepost.errors import UsageError
from workloads.hold import Hold
from workloads.steps import Fencing

Requirement = Literal["lease", "exclusion", "data"]
ClusterChoice = Literal["auto", "process", "docker"]


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Durations in milliseconds. `lock` is a recipe's name, a foreign lock's name or `package.module:Class`;
    `lock_command` a program that speaks the lock protocol, which then replaces it. `extensions`: how often at most a
    client prolongs its lease in one section, each time when half of it is gone. `disks`: each node has a small file
    system (`disk_fs`) for itself, whose power can be cut; a schedule with power cuts has them without being asked.
    `witness`: whether the nodes' keys are watched (`harness.run.witness`)."""

    seed: int
    workload: str = "fenced-counter"
    lock: str = "redlock-ng"
    lock_command: str | None = None
    nemesis: str = "partition"
    schedule: str | None = None
    duration_ms: float = 30_000
    recovery_ms: float = 3_000
    clients: int = 10
    nodes: int = 5
    keys: int = 1
    ttl_ms: int = 1_000
    hold: Hold = Hold("uniform", 2, 20)
    extensions: int = 0
    fencing: Fencing = "none"
    acquire_mode: Literal["parallel", "sequential"] = "parallel"
    node_timeout_ms: float = 50
    retry_delay_ms: float = 50
    require: Requirement = "lease"
    cluster: ClusterChoice = "auto"
    server: str = "redis"
    persistence: Policy = "none"
    disks: bool = False
    disk_fs: FileSystem = "ext4"
    witness: Literal["on", "off"] = "on"

    def check(self) -> None:
        """Raise UsageError, naming the option, for numbers that cannot mean anything."""
        _within("--seed", self.seed, 0, 2**63 - 1)
        _within("--duration", self.duration_ms, 100, 24 * 3_600_000, " ms")
        _within("--recovery", self.recovery_ms, 0, 3_600_000, " ms")
        _within("--clients", self.clients, 1, 256)
        _within("--nodes", self.nodes, 1, 9)
        _within("--keys", self.keys, 1, 100_000)
        _within("--ttl", self.ttl_ms, 10, 3_600_000, " ms")
        _within("--node-timeout", self.node_timeout_ms, 1, 60_000, " ms")
        _within("--retry-delay", self.retry_delay_ms, 0, 60_000, " ms")
        _within("--hold", self.hold.high_ms, 0, 3_600_000, " ms")
        _within("--extend", self.extensions, 0, 10_000)
        if self.ttl_ms < self.node_timeout_ms:
            raise UsageError(
                f"--ttl {self.ttl_ms} ms is shorter than --node-timeout {self.node_timeout_ms:g} ms: one slow node "
                "would use up the whole lease; raise --ttl or lower --node-timeout"
            )
        if self.clients * (self.nodes + 1) > 2_000:
            raise UsageError(
                f"{self.clients} clients × {self.nodes + 1} servers are more than 2000 links; lower --clients"
            )

    @property
    def client_names(self) -> tuple[str, ...]:
        return tuple(f"c{i}" for i in range(1, self.clients + 1))

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{i}" for i in range(1, self.nodes + 1))


def _within(option: str, value: float, low: float, high: float, unit: str = "") -> None:
    if not low <= value <= high:
        raise UsageError(f"{option} is {value:g}{unit}; it must be between {low:g} and {high:g}{unit}")
