"""The default: servers as children on loopback ports, links through a Toxiproxy next to them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen
from typing import ClassVar

from cluster.address import Address
from cluster.base import LOOPBACK
from cluster.base_cluster import WIRE_VARIABLE, BaseCluster
from cluster.lifetime import StateFolder
from cluster.member_network import MemberNetwork
from cluster.ports import Ports, ephemeral_range
from cluster.process_node import ProcessNode
from cluster.server_node import Seen
from cluster.spec import ClusterSpec
from cluster.subprocesses import end_child, look_at_child, spawn
from fencepost.errors import BrokenEnvironmentError


class ProcessCluster(BaseCluster[ProcessNode]):
    """`cluster.base.Cluster` of processes."""

    name: ClassVar[str] = "process"
    node_kind: ClassVar[type[ProcessNode]] = ProcessNode
    """What the nodes are; the resource is always a process of the run."""

    def __init__(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None = None) -> None:
        self._folder = state.path / "process"
        self._proxy_process: Popen[bytes] | None = None
        self._network = MemberNetwork(spec.nodes, state.path) if spec.group else None
        super().__init__(spec, state, log_dir, wire)

    @property
    def members(self) -> MemberNetwork | None:
        return self._network

    def _make_node(self, name: str) -> ProcessNode:
        kind = self.node_kind if name in self._spec.nodes else ProcessNode
        return kind(
            name,
            self._spec.programs[name],
            self._folder / name,
            self._log_dir / f"{name}.log",
            self._spec.policies[name],
            self._spec.access,
            self._owner,
            self._state.environment,
            self._patience,
            self._network,
            self._spec.hosts.get(name),
        )

    def _start_servers(self) -> Mapping[str, object]:
        """All processes are spawned before the first of them is waited for."""
        disks = self._make_disks()
        self._go_on()
        servers, members = list(self._servers.values()), self._open_network()
        alone = [server for server in servers if server.name not in members]
        for server, port in zip(alone, self._ports.take(len(alone)), strict=True):
            server.claim(Address(LOOPBACK, port))
        with ThreadPoolExecutor(len(servers)) as pool:
            starting = [pool.submit(server.start_first, self._ports) for server in servers]
            self._start_proxy()
            for started in starting:
                started.result()
        low, high = ephemeral_range()
        proxy = self._spec.toxiproxy
        return {
            "server": self._spec.server.facts(),
            "resource_server": self._spec.resource_server.facts(),
            "toxiproxy": {"version": proxy.version, "path": str(proxy.path)},
            "ephemeral_ports": f"{low}-{high}",
            **disks,
        }

    def _open_network(self) -> Collection[str]:
        """The network of the group, if the nodes are one; which servers are in it."""
        if self._network is None or (group := self._spec.group) is None:
            return ()
        self._network.open()
        for name, member in self._spec.hosts.items():
            port = group.port if name == member else group.sentinel_port
            assert port is not None
            self._servers[name].claim(Address(self._network.hosts[member], port))
        return self._spec.hosts

    def _member_ports(self) -> Ports:
        return self._ports

    def _launch_proxy(self, folder: Path, socket: str) -> Callable[[], bool]:
        self._proxy_process = process = spawn(
            self._spec.toxiproxy.path,
            ["-socket", socket],
            owner=self._owner,
            folder=folder,
            log=self._log_dir / "toxiproxy.log",
            environment=self._state.environment,
            files={} if self._wire is None else {WIRE_VARIABLE: self._wire},
        )
        return lambda: process.poll() is None

    def _look_at_proxy(self, within_ms: float) -> Seen:
        return look_at_child(self._proxy_process, lambda: self._proxy().answers(within_ms))

    def _end_servers(self) -> None:
        for server in self._servers.values():
            with contextlib.suppress(BrokenEnvironmentError):
                server.kill()
        process, self._proxy_process = self._proxy_process, None
        if process is not None:
            end_child(process)
        if self._network is not None:
            self._network.close()
        shutil.rmtree(self._folder, ignore_errors=True)
