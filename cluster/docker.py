"""The same cluster as containers: every server in one of its own, on a network that belongs to the run.

Nothing is published, and nothing restarts by itself (the SDK's default). This host dials a node at its own address on
the run's bridge, which it keeps over restarts, and Toxiproxy, in a container that shares this host's network, listens
on 127.0.0.1 only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from docker import DockerClient
from docker.errors import NotFound
from docker.models.containers import Container
from docker.types import LogConfig

from cluster.base import RESOURCE, Address, ProbeResult
from cluster.container import ContainerNode, version_of
from cluster.disk import Disk, FileSystem, disk_facts, make_disks, remove_disks
from cluster.engine import (
    ENGINE_ERRORS,
    RUN_LABEL,
    STATE_LABEL,
    Subnet,
    at_once,
    connect,
    create_network,
    remove_run,
    words_of,
)
from cluster.images import Image, Recipe, provide
from cluster.lifetime import RunState
from cluster.links import make_links
from cluster.persistence import Policy, server_directives
from cluster.ports import LOOPBACK, Ports
from cluster.probe import probe_links
from cluster.programs import ServerProgram, ToxiproxyProgram, find_toxiproxy
from cluster.toxiproxy import LinkKey, ToxicLink, ToxiproxyServer
from cluster.waiting import VERB_LIMIT_S
from fencepost.errors import BrokenEnvironmentError

REDIS_IMAGE = "redis:7.4"
TOXIPROXY_IMAGE = "ghcr.io/shopify/toxiproxy:2.12.0"
TOXIPROXY = "toxiproxy"

_PORT = 6379
_PORT_TRIES = 5
_DISK = "/data"
_LOG = LogConfig(type=LogConfig.types.JSON)
"""Said explicitly, because an engine can be set up to keep no logs, or to send them away."""


class DockerCluster:
    """`cluster.base.Cluster` in containers. The logs go to `log_dir` when the cluster stops.

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
        self._policies: dict[str, Policy] = {**dict.fromkeys(nodes, policy), RESOURCE: "aof-always"}
        self._servers = {name: ContainerNode(name, of_node) for name, of_node in self._policies.items()}
        self._name = f"fencepost-{state.run_id}"
        self._labels = {RUN_LABEL: state.run_id, STATE_LABEL: str(state.path)}
        self._engine: DockerClient | None = None
        self._containers: dict[str, Container] = {}
        self._links: dict[LinkKey, ToxicLink] = {}
        self._ports = Ports()
        self._api: ToxiproxyServer | None = None
        self._environment: dict[str, object] = {"backend": self.backend}

    @property
    def backend(self) -> str:
        return "docker"

    @property
    def nodes(self) -> Mapping[str, ContainerNode]:
        return {name: node for name, node in self._servers.items() if name != RESOURCE}

    @property
    def resource(self) -> ContainerNode:
        return self._servers[RESOURCE]

    @property
    def links(self) -> Mapping[LinkKey, ToxicLink]:
        return self._links

    @property
    def labels(self) -> Mapping[str, str]:
        """What every container and network of this cluster carries."""
        return self._labels

    def start(self) -> None:
        """Bring everything up at once. Raises BrokenEnvironmentError, after everything was taken down again."""
        if self._engine is not None:
            return
        self._engine = connect()
        try:
            self._bring_up(self._engine)
        except BaseException as error:
            try:
                self.stop()
            except BrokenEnvironmentError as second:
                error.add_note(str(second))
            if isinstance(error, ENGINE_ERRORS):
                raise BrokenEnvironmentError(f"the cluster cannot be started: {words_of(error)}") from error
            raise

    def stop(self) -> None:
        """Save the logs, then remove containers, network and disks, running, paused or dead.

        Raises BrokenEnvironmentError only if the engine or a disk resists; a sweep finds what is then left.
        """
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if self._api is not None:
            self._api.close()
        self._api, self._links = None, {}
        try:
            try:
                self._save_logs()
            finally:
                remove_run(engine, self._labels)
                disks, self._disks = self._disks, {}
                remove_disks(disks)
        except ENGINE_ERRORS as error:
            raise BrokenEnvironmentError(f"{self._name} was not taken down cleanly: {words_of(error)}") from error
        finally:
            engine.close()
            self._ports.close()

    def heal(self) -> None:
        if self._api is not None:
            self._api.heal_all(self._links.values())

    def probe(self, links: Sequence[LinkKey], timeout_ms: float = 100) -> dict[LinkKey, ProbeResult]:
        targets = {key: self._links[key].address for key in links}
        return probe_links(targets, self._addresses(), timeout_ms)

    def environment(self) -> dict[str, object]:
        return self._environment

    def _addresses(self) -> dict[str, Address]:
        return {name: node.address for name, node in self._servers.items()}

    def _bring_up(self, engine: DockerClient) -> None:
        self._toxiproxy_program = self._toxiproxy_program or find_toxiproxy()
        server_image, proxy_image = self._provide_images(engine, self._toxiproxy_program)
        made: list[Subnet] = []
        at_once(
            [
                lambda: made.append(create_network(engine, self._name, self._labels)),
                partial(self._start_proxy, engine, proxy_image),
            ]
        )
        (subnet,) = made
        hosts = subnet.addresses(len(self._servers))
        if self._disk_fs is not None:
            self._disks = make_disks(self._state, list(self.nodes), self._disk_fs)
            self._disk_facts = disk_facts(self._disks)
        at_once(
            partial(self._start_server, engine, server_image, subnet.network, name, host)
            for name, host in zip(self._servers, hosts, strict=True)
        )
        assert self._api is not None
        self._links = make_links(self._api, self._clients, self._addresses(), self._ports)
        self._describe(engine, server_image, proxy_image, subnet)

    def _provide_images(self, engine: DockerClient, toxiproxy: ToxiproxyProgram) -> tuple[Image, Image]:
        server = self._server_program
        published = REDIS_IMAGE if server.flavour == "redis" and not server.by_path else None
        return (
            provide(engine, Recipe(server.flavour, published, server.path, f"/usr/local/bin/{server.flavour}-server")),
            provide(engine, Recipe(TOXIPROXY, TOXIPROXY_IMAGE, toxiproxy.path, "/toxiproxy")),
        )

    def _describe(self, engine: DockerClient, server: Image, proxy: Image, subnet: Subnet) -> None:
        assert self._toxiproxy_program is not None
        tag = proxy.reference.rpartition(":")[2]
        told = engine.version()
        self._environment = {
            "backend": self.backend,
            "engine": {"version": told.get("Version"), "api": told.get("ApiVersion"), "network": str(subnet.pool)},
            "server": {
                "flavour": self._server_program.flavour,
                "version": version_of(self.resource.address),
                **server.environment(),
            },
            "toxiproxy": {
                # One that was built by `go install` does not know its version, so the running server is not asked.
                "version": tag if proxy.origin == "pulled" else self._toxiproxy_program.version,
                **proxy.environment(),
            },
            "persistence": {"nodes": self._policy, "resource": self._policies[RESOURCE]},
            **self._disk_facts,
            "addresses": {name: str(address) for name, address in self._addresses().items()},
        }

    def _start_server(self, engine: DockerClient, image: Image, network: str, name: str, host: str) -> None:
        directives = server_directives(
            bind="0.0.0.0",  # noqa: S104 - inside the container; the run's network lets nobody else in
            port=_PORT,
            folder=_DISK,
            policy=self._policies[name],
            protected=False,
        )
        disk = self._disks.get(name)
        container = engine.containers.create(
            image.reference,
            [word for key, value in directives for word in (f"--{key}", *(value.split() or [""]))],
            entrypoint=[image.inside],
            name=f"{self._name}-{name}",
            hostname=name,
            labels=dict(self._labels),
            working_dir=_DISK,
            volumes={str(disk.path): {"bind": _DISK, "mode": "rw"}} if disk else {},
            network=network,
            networking_config={network: engine.api.create_endpoint_config(ipv4_address=host)},
            log_config=_LOG,
        )
        self._containers[name] = container
        self._servers[name].adopt(container, Address(host, _PORT))
        if disk is not None:
            self._servers[name].put_on(disk)
        self._servers[name].start()

    def _start_proxy(self, engine: DockerClient, image: Image) -> None:
        """On this host's network a port can be taken in the meantime; that means another try with a fresh one."""
        for last_try in (*[False] * (_PORT_TRIES - 1), True):
            address = Address(LOOPBACK, self._ports.take(1)[0])
            container = engine.containers.create(
                image.reference,
                [f"-host={address.host}", f"-port={address.port}"],
                entrypoint=[image.inside],
                environment={"LOG_LEVEL": "error"},
                name=f"{self._name}-{TOXIPROXY}",
                labels=dict(self._labels),
                network_mode="host",
                cap_drop=["ALL"],
                log_config=_LOG,
            )
            self._containers[TOXIPROXY] = container
            container.start()
            self._api = ToxiproxyServer(address)
            try:
                self._api.wait_until_up(partial(_is_running, container), VERB_LIMIT_S)
            except BrokenEnvironmentError:
                if last_try:
                    raise
                self._api.close()
                container.remove(force=True)
            else:
                return

    def _save_logs(self) -> None:
        self._log_dir.mkdir(parents=True, exist_ok=True)
        at_once(partial(self._save_log, name, container) for name, container in self._containers.items())

    def _save_log(self, name: str, container: Container) -> None:
        # Of a container that is gone there is no log, and that is not worth a teardown that stops half-way.
        with suppress(NotFound):
            (self._log_dir / f"{name}.log").write_bytes(container.logs())


def _is_running(container: Container) -> bool:
    container.reload()
    return bool(container.attrs["State"]["Running"])
