"""The embedded default: redis-server children on loopback ports, links through a toxiproxy-server beside them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen

from cluster.base import RESOURCE, Address, ProbeResult
from cluster.children import end_child, spawn
from cluster.disk import Disk, FileSystem, disk_facts, make_disks, remove_disks
from cluster.lifetime import RunState
from cluster.links import make_links
from cluster.persistence import Policy
from cluster.ports import LOOPBACK, Ports, ephemeral_range
from cluster.probe import probe_links
from cluster.process_node import ProcessNode
from cluster.programs import ServerProgram, ToxiproxyProgram, find_toxiproxy
from cluster.toxiproxy import LinkKey, ToxicLink, ToxiproxyServer
from fencepost.errors import BrokenEnvironmentError, InternalError

_PORT_TRIES = 5
_START_LIMIT_S = 9.0


class ProcessCluster:
    """`cluster.base.Cluster` of processes. Everything temporary is below `state.path`; logs go to `log_dir`.

    The nodes keep to `policy`; the resource always fsyncs before it replies. With `disks` each node has a small file
    system of that kind for itself, whose power can be cut. Nothing is started before `start`.
    """

    def __init__(
        self,
        state: RunState,
        server: ServerProgram,
        nodes: Sequence[str],
        clients: Sequence[str],
        log_dir: Path,
        policy: Policy = "none",
        toxiproxy: ToxiproxyProgram | None = None,
        disks: FileSystem | None = None,
    ) -> None:
        self._state = state
        self._server_program = server
        self._toxiproxy_program = toxiproxy
        self._clients = tuple(clients)
        self._log_dir = log_dir
        self._policy = policy
        self._disk_fs = disks
        self._disks: dict[str, Disk] = {}
        self._disk_facts: Mapping[str, object] = {}
        self._folder = state.path / "process"
        self._nodes = {name: self._node(name, policy) for name in nodes}
        self._resource = self._node(RESOURCE, "aof-always")
        self._links: dict[LinkKey, ToxicLink] = {}
        self._ports = Ports()
        self._proxy: Popen[bytes] | None = None
        self._api: ToxiproxyServer | None = None

    @property
    def backend(self) -> str:
        return "process"

    @property
    def nodes(self) -> Mapping[str, ProcessNode]:
        return self._nodes

    @property
    def resource(self) -> ProcessNode:
        return self._resource

    @property
    def links(self) -> Mapping[LinkKey, ToxicLink]:
        return self._links

    def start(self) -> None:
        """Bring everything up at once. Raises BrokenEnvironmentError, after everything was taken down again."""
        if self._proxy is not None:
            return
        try:
            self._toxiproxy_program = self._toxiproxy_program or find_toxiproxy()
            self._log_dir.mkdir(parents=True, exist_ok=True)
            self._make_disks()
            api = self._start_servers_and_proxy(self._toxiproxy_program)
            servers = {server.name: server.address for server in self._everyone()}
            self._links = make_links(api, self._clients, servers, self._ports)
        except BaseException as error:
            try:
                self.stop()
            except BrokenEnvironmentError as second:
                error.add_note(str(second))
            if isinstance(error, OSError):
                raise BrokenEnvironmentError(f"the cluster cannot be started: {error}") from error
            raise

    def stop(self) -> None:
        """Take everything down, SIGKILL to all, and delete the servers' folders and disks.

        Raises BrokenEnvironmentError only if a disk resists; a sweep finds it.
        """
        for node in self._everyone():
            with contextlib.suppress(BrokenEnvironmentError):
                node.kill()
        if self._api is not None:
            self._api.close()
        if self._proxy is not None:
            end_child(self._proxy)
        self._proxy, self._api, self._links = None, None, {}
        self._ports.close()
        disks, self._disks = self._disks, {}
        remove_disks(disks)
        shutil.rmtree(self._folder, ignore_errors=True)

    def heal(self) -> None:
        if self._api is not None:
            self._api.heal_all(self._links.values())

    def probe(self, links: Sequence[LinkKey], timeout_ms: float = 100) -> dict[LinkKey, ProbeResult]:
        servers = {node.name: node.address for node in self._everyone()}
        return probe_links({key: self._links[key].address for key in links}, servers, timeout_ms)

    def environment(self) -> dict[str, object]:
        server, proxy = self._server_program, self._toxiproxy_program
        low, high = ephemeral_range()
        return {
            "backend": self.backend,
            "server": {"flavour": server.flavour, "version": server.version, "path": str(server.path)},
            "toxiproxy": {"version": proxy.version, "path": str(proxy.path)} if proxy else None,
            "persistence": {"nodes": self._policy, "resource": "aof-always"},
            **self._disk_facts,
            "addresses": {node.name: str(node.address) for node in self._everyone()} if self._links else {},
            "ephemeral_ports": f"{low}-{high}",
        }

    def _node(self, name: str, policy: Policy) -> ProcessNode:
        return ProcessNode(
            name,
            self._server_program,
            self._folder / name,
            self._log_dir / f"{name}.log",
            policy,
            self._state.environment,
        )

    def _make_disks(self) -> None:
        if self._disk_fs is not None:
            self._disks = make_disks(self._state, list(self._nodes), self._disk_fs)
            self._disk_facts = disk_facts(self._disks)
            for name, disk in self._disks.items():
                self._nodes[name].put_on(disk)

    def _everyone(self) -> tuple[ProcessNode, ...]:
        return (*self._nodes.values(), self._resource)

    def _start_servers_and_proxy(self, program: ToxiproxyProgram) -> ToxiproxyServer:
        """All processes are spawned before the first of them is waited for."""
        servers = self._everyone()
        for server, port in zip(servers, self._ports.take(len(servers)), strict=True):
            server.claim(Address(LOOPBACK, port))
        with ThreadPoolExecutor(len(servers)) as pool:
            starting = [pool.submit(server.start_first, self._ports) for server in servers]
            api = self._start_proxy(program)
            for started in starting:
                started.result()
        return api

    def _start_proxy(self, program: ToxiproxyProgram) -> ToxiproxyServer:
        for last_try in (*[False] * (_PORT_TRIES - 1), True):
            (port,) = self._ports.take(1)
            self._proxy = spawn(
                [program.path, "-host", LOOPBACK, "-port", str(port)],
                folder=self._state.path,
                log=self._log_dir / "toxiproxy.log",
                environment={**self._state.environment, "LOG_LEVEL": "error"},
            )
            self._api = api = ToxiproxyServer(Address(LOOPBACK, port))
            try:
                api.wait_until_up(self._proxy_runs, _START_LIMIT_S)
            except BrokenEnvironmentError:
                end_child(self._proxy)
                if last_try:
                    raise
            else:
                return api
        raise InternalError("the last try returns or raises")

    def _proxy_runs(self) -> bool:
        return self._proxy is not None and self._proxy.poll() is None
