"""The same cluster as containers: each server in its own container, on a network that belongs to the run.

Nothing is published, and nothing restarts automatically (the SDK's default). This host dials a node at its own address
on the run's bridge, which it keeps over restarts. Toxiproxy, in a container that shares this host's network, has its
links on 127.0.0.1 only, and its HTTP interface on a Unix socket in the run's state folder.

The members of a group, and the sentinels beside them, join the networks of containers that do nothing else, so that a
member keeps its network when it is killed.

Every user of this host can dial these addresses, so the servers ask for passwords (`cluster.credentials`).
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from docker import DockerClient
from docker.errors import NotFound
from docker.models.containers import Container
from docker.types import LogConfig, Mount

from cluster import server_tree
from cluster.address import Address
from cluster.archive import archive_of
from cluster.base import LOOPBACK
from cluster.base_cluster import WIRE_VARIABLE, BaseCluster
from cluster.container import ContainerNode
from cluster.engine import (
    CALLS_AT_ONCE,
    ENGINE_ERRORS,
    Subnet,
    connect,
    create_network,
    inspected,
    words_of,
)
from cluster.engine_address import Engine
from cluster.engine_runs import OWNER_LABEL, this_owner
from cluster.engine_sweep import RUN_LABEL, STATE_LABEL, remove_run
from cluster.images import Image, Recipe, provide
from cluster.lifetime import StateFolder
from cluster.member_network import MemberNetwork
from cluster.parallel import at_once
from cluster.ports import Ports
from cluster.programs import ServerProgram, ToxiproxyProgram
from cluster.run_user import Owner
from cluster.server import Place
from cluster.server_node import ASK_MS, Seen
from cluster.spec import ClusterSpec
from cluster.wall_clock import WallClock, environment_in
from fencepost.errors import BrokenEnvironmentError, InternalError

TOXIPROXY = "toxiproxy"

_PORT = 6379
_IDLE_PORT = "9010"
_ANY_HOST = "0.0.0.0"  # noqa: S104 - inside a container, on a network closed to others
_DISK = "/data"
_SOCKETS = "/sockets"
_WIRE = "/wire"
_CLOCK = "/clock"
_LOG = LogConfig(type=LogConfig.types.JSON)
"""Set explicitly, because an engine can be configured to keep no logs, or to send them away."""


class DockerCluster(BaseCluster[ContainerNode]):
    """`cluster.base.Cluster` in containers. The logs are written to `log_dir` when the cluster stops."""

    name: ClassVar[str] = "docker"

    def __init__(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None = None) -> None:
        super().__init__(spec, state, log_dir, wire)
        self._prefix = f"fencepost-{state.run_id}"
        self._labels = {RUN_LABEL: state.run_id, STATE_LABEL: str(state.path), OWNER_LABEL: this_owner()}
        site = state.site  # read now: the folder may be deleted during the run
        self._known = None if site is None else Engine.of(site)
        self._client: DockerClient | None = None
        self._proxy_image: Image | None = None
        self._containers: dict[str, Container] = {}
        self._bridge_ports: Ports | None = None
        self._network: MemberNetwork | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """What every container and network of this cluster carries."""
        return self._labels

    @property
    def members(self) -> MemberNetwork | None:
        return self._network

    def _make_node(self, name: str) -> ContainerNode:
        return ContainerNode(name, self._spec.programs[name].server, self._spec.policies[name], self._patience)

    def _start_servers(self) -> Mapping[str, object]:
        self._client = connect(self._used)
        try:
            return self._start_containers()
        except ENGINE_ERRORS as error:
            raise BrokenEnvironmentError(f"the cluster cannot be started: {words_of(error)}") from error

    def _start_containers(self) -> Mapping[str, object]:
        programs = dict.fromkeys(self._spec.programs.values())
        images = {program: self._provide(_recipe(program)) for program in programs}
        self._proxy_image = self._provide(_proxy_recipe(self._spec.toxiproxy))
        made: list[Subnet] = []
        at_once([lambda: made.append(create_network(self._engine, self._prefix, self._labels)), self._start_proxy])
        (subnet,) = made
        self._bridge_ports = Ports(str(subnet.gateway))
        disks = self._make_disks()
        hosts = dict(zip(self._servers, subnet.addresses(len(self._servers)), strict=True))
        self._make_member_networks(images[self._spec.resource_server], subnet.network, hosts)
        starts = [
            partial(self._start_server, images[self._spec.programs[name]], subnet.network, name, host)
            for name, host in hosts.items()
        ]
        at_once(starts, at_most=CALLS_AT_ONCE)
        return {**self._facts(images, self._proxy_image, subnet), **disks}

    def _make_member_networks(self, image: Image, network: str, hosts: Mapping[str, str]) -> None:
        """For each member of a group, a container that has its network, with a server that no other can reach."""
        if self._spec.group is None:
            return

        def make(member: str) -> tuple[str, int]:
            idle = self._create(
                f"{member}-network",
                image,
                ["--bind", LOOPBACK, "--port", _IDLE_PORT, "--save", ""],
                network=network,
                networking_config=self._endpoint(network, hosts[member]),
            )
            idle.start()
            idle.reload()
            return member, int(idle.attrs["State"]["Pid"])

        pids = dict(at_once([partial(make, member) for member in self._spec.nodes], at_most=CALLS_AT_ONCE))
        self._network = MemberNetwork(
            self._spec.nodes, self._state.path, {member: hosts[member] for member in self._spec.nodes}
        )
        self._network.enter(pids)

    def _endpoint(self, network: str, host: str) -> Mapping[str, Any]:
        settings = self._engine.api.create_endpoint_config(ipv4_address=host, mac_address=_mac_of(host))
        return {network: settings}

    def _member_ports(self) -> Ports:
        """On this host's own address in the run's network."""
        if self._bridge_ports is None:
            raise InternalError("links between containers are made before their network")
        return self._bridge_ports

    def _look_at_proxy(self, within_ms: float) -> Seen:
        if self._proxy().answers(within_ms):
            return "up"
        try:
            state = inspected(self._containers[TOXIPROXY])
        except NotFound:
            return "gone"
        except ENGINE_ERRORS as error:
            raise BrokenEnvironmentError(f"inspection of {TOXIPROXY} failed: {words_of(error)}") from error
        return "down" if not state["Running"] else "stopped" if state["Paused"] else "silent"

    def _end_servers(self) -> None:
        """Save the logs, then remove containers and network, whatever state they are in."""
        if self._bridge_ports is not None:
            self._bridge_ports.close()
        if self._network is not None:
            self._network.close()
        engine, self._client = self._client, None
        if engine is None:
            return
        try:
            try:
                self._save_logs()
            finally:
                remove_run(self._used, self._labels)
        except BrokenEnvironmentError:
            self._state.leave_to_reaper()
            raise
        except ENGINE_ERRORS as error:
            raise BrokenEnvironmentError(f"{self._prefix} was not taken down cleanly: {words_of(error)}") from error
        finally:
            self._containers.clear()
            engine.close()

    def _facts(self, images: Mapping[ServerProgram, Image], proxy: Image, subnet: Subnet) -> dict[str, object]:
        version = self._engine.version()
        return {
            "engine": {
                "version": version.get("Version"),
                "api": version.get("ApiVersion"),
                "network": str(subnet.pool),
            },
            "server": self._server_facts(next(iter(self.nodes.values())), self._spec.server, images),
            "resource_server": self._server_facts(self.resource, self._spec.resource_server, images),
            "toxiproxy": {"version": self._spec.toxiproxy.version, **proxy.environment()},
        }

    def _server_facts(
        self, node: ContainerNode, program: ServerProgram, images: Mapping[ServerProgram, Image]
    ) -> dict[str, object]:
        try:
            version = node.server.running_version(node.address, ASK_MS)
        except OSError as error:
            raise BrokenEnvironmentError(f"{node.name} does not report its version: {error}") from error
        return program.facts() | {"version": version} | images[program].environment()

    @property
    def _used(self) -> Engine:
        if self._known is None:
            raise InternalError("a cluster of containers needs a state folder that was made for an engine")
        return self._known

    @property
    def _engine(self) -> DockerClient:
        if self._client is None:
            raise InternalError("the Docker engine is used before the cluster was started")
        return self._client

    def _provide(self, recipe: Recipe) -> Image:
        self._go_on()
        image = provide(self._engine, recipe, self._called_off)
        self._go_on()
        return image

    def _start_server(self, image: Image, network: str, name: str, host: str) -> None:
        node, program = self._servers[name], self._spec.programs[name]
        disk, has_tree, place = self._disks.get(name), node.server.needs_tree, self._place(name, host)
        container = self._create(
            name,
            image,
            node.server.arguments(place),
            program=f"{_DISK}/bin/{program.path.resolve().name}" if has_tree else image.inside,
            working_dir=_DISK,
            volumes=None if disk else [_DISK],
            **self._where(name, network, host),
            mounts=[*([_shared(disk.path, _DISK)] if disk else []), *_clock_mounts(node.clock)],
            environment=_clock_variables(node.clock),
        )
        if disk is None:
            container.put_archive(_DISK, _folder_of(self._owner, node.server.files(place)))
            if has_tree:
                container.put_archive(_DISK, server_tree.archive(program.path, self._owner))
        elif has_tree:
            server_tree.plant(program.path, disk.path, self._owner)
        address = Address(place.host if place.members else host, place.port)
        node.adopt(container, address.behind(self._spec.access.harness), _DISK)
        self._go_on()
        node.start()

    def _place(self, name: str, host: str) -> Place:
        policy, access, member = self._spec.policies[name], self._spec.access, self._spec.hosts.get(name)
        if self._network is None or member is None or (group := self._spec.group) is None:
            return Place(_ANY_HOST, _PORT, _DISK, policy, access)
        port = group.port if name == member else group.sentinel_port
        assert port is not None
        return Place(self._network.hosts[member], port, _DISK, policy, access, name, self._network.hosts)

    def _where(self, name: str, network: str, host: str) -> Mapping[str, Any]:
        """The options of a server's container that say which network it is in."""
        if member := self._spec.hosts.get(name):
            return {"network_mode": f"container:{self._prefix}-{member}-network"}
        return {"hostname": name, "network": network, "networking_config": self._endpoint(network, host)}

    def _launch_proxy(self, folder: Path, socket: str) -> Callable[[], bool]:
        """On this host's own network, so that it can reach the servers and clients can reach it."""
        assert self._proxy_image is not None
        folders = [_shared(folder, _SOCKETS)]
        if self._wire is not None:
            folders.append(_shared(self._wire.absolute(), _WIRE))
        container = self._create(
            TOXIPROXY,
            self._proxy_image,
            ["-socket", socket],
            network_mode="host",
            working_dir=_SOCKETS,
            mounts=folders,
            environment={WIRE_VARIABLE: _WIRE},
        )
        container.start()
        return partial(_is_running, container)

    def _create(
        self, name: str, image: Image, arguments: Sequence[str], *, program: str | None = None, **options: Any
    ) -> Container:
        """A container that may do nothing but run its program: as the run's own user, with no privileges and nothing to
        write to except the volumes that it is given. `program`: another one than the image's."""
        self._go_on()
        container = self._engine.containers.create(
            image.reference,
            list(arguments),
            entrypoint=[program or image.inside],
            name=f"{self._prefix}-{name}",
            labels=dict(self._labels),
            user=str(self._owner),
            userns_mode="host",  # an engine that remaps users would refuse this host's network, and hide the owners
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            log_config=_LOG,
            **options,
        )
        self._containers[name] = container
        return container

    def _save_logs(self) -> None:
        saving = [partial(self._save_log, name, container) for name, container in self._containers.items()]
        at_once(saving, at_most=CALLS_AT_ONCE)

    def _save_log(self, name: str, container: Container) -> None:
        # Of a container that is gone there is no log, and that is not worth a teardown that stops half-way.
        with suppress(NotFound):
            (self._log_dir / f"{name}.log").write_bytes(container.logs())


def _mac_of(host: str) -> str:
    """The hardware address that Docker derives from an IPv4 address. Podman draws a new one at every start, and this
    host would go on sending to the old one for as long as it remembers it."""
    return ":".join(["02", "42", *(f"{byte:02x}" for byte in IPv4Address(host).packed)])


def _shared(folder: Path, inside: str, *, read_only: bool = False) -> Mount:
    """A folder of this host in a container. Unlike a volume with a path it is refused if the engine does not see it."""
    return Mount(inside, str(folder), type="bind", read_only=read_only)


def _clock_mounts(clock: WallClock | None) -> list[Mount]:
    return [] if clock is None else [_shared(clock.folder, _CLOCK, read_only=True)]


def _clock_variables(clock: WallClock | None) -> dict[str, str]:
    return {} if clock is None else {name: str(path) for name, path in environment_in(Path(_CLOCK)).items()}


def _folder_of(owner: Owner, files: Mapping[str, bytes]) -> bytes:
    """An archive that gives the folder that it is unpacked in to the owner, with these files."""
    folder = tarfile.TarInfo(".")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o700
    members = [(folder, b"")]
    for name, content in files.items():
        if (parent := PurePosixPath(name).parent) != PurePosixPath():
            inner = tarfile.TarInfo(str(parent))
            inner.type, inner.mode = tarfile.DIRTYPE, 0o700
            members.append((inner, b""))
        file = tarfile.TarInfo(name)
        file.mode = 0o600
        members.append((file, content))
    for member, _ in members:
        member.uid, member.gid = owner
    return archive_of(members)


def _is_running(container: Container) -> bool:
    container.reload()
    return bool(container.attrs["State"]["Running"])


def _recipe(program: ServerProgram) -> Recipe:
    inside = f"/usr/local/bin/{program.server.programs[0]}"
    return Recipe(program.name, program.image, program.path, inside, program.server.needs_tree)


def _proxy_recipe(program: ToxiproxyProgram) -> Recipe:
    return Recipe(TOXIPROXY, None, program.path, "/toxiproxy")
