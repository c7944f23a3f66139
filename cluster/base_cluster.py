"""What clusters have in common: servers by name, their disks, and a link from every client to every server.

A kind of cluster says how its servers and its Toxiproxy are started and ended; in what order, and what happens when
something fails, is decided here.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from cluster import replication
from cluster.address import Address, LinkKey, ProbeResult
from cluster.base import RESOURCE, CalledOff, CalledOffError, Condition, Impairment, NotInTimeError, Part, never
from cluster.credentials import Access
from cluster.disk import Disk, disk_facts, make_disks, remove_disks
from cluster.lifetime import StateFolder
from cluster.links import make_links
from cluster.member_network import MemberNetwork
from cluster.parallel import at_once
from cluster.polling import VERB_LIMIT_S, Patience
from cluster.ports import Ports
from cluster.run_user import Owner
from cluster.server import KeyReader, ProbeLinks
from cluster.server_node import Seen, ServerNode
from cluster.spec import ClusterSpec
from cluster.toxiproxy import ToxicLink, ToxiproxyServer
from cluster.unread import UnreadReplies
from cluster.wall_clock import WallClock
from fencepost.errors import BrokenEnvironmentError
from fencepost.files import NO_SPACE, disk_error
from fencepost.history import PROXY
from fencepost.text import listed

_CLOCKS_FOLDER = "clocks"
_PROXY_FOLDER = "proxy"
_PROXY_SOCKET = "toxiproxy.sock"
WIRE_VARIABLE = "FENCEPOST_WIRE"
"""Tells Toxiproxy the folder for its record."""
MOST_BYTES = 512 << 20
"""How large the record of what goes over the links may become: 2 million requests or more."""
_SERVES_MS = 1_000.0


N = TypeVar("N", bound=ServerNode)


class ProxyPart:
    """Toxiproxy as a `cluster.base.Part`: no verb ever stops it."""

    name = PROXY

    def __init__(self, look: Callable[[float], Seen]) -> None:
        self._look = look

    def condition(self, within_ms: float) -> Condition:
        seen = self._look(within_ms)
        return "as wanted" if seen == "up" else seen


class BaseCluster(ABC, Generic[N]):
    """`cluster.base.Cluster`, all but the servers themselves.

    Everything temporary is below `state.path`; logs go to `log_dir`, and what goes over the links to the folder `wire`,
    which is made; None: it is not recorded. Nothing is started before `start`.
    """

    name: ClassVar[str]

    def __init__(self, spec: ClusterSpec, state: StateFolder, log_dir: Path, wire: Path | None = None) -> None:
        self._spec = spec
        self._state = state
        self._log_dir = log_dir
        self._wire = wire
        self._owner = Owner.of_run()
        self._called_off: CalledOff = never
        self._patience = Patience(lambda: self._called_off())
        self._servers: dict[str, N] = {name: self._make_node(name) for name in spec.programs}
        self._is_started = False
        self._ports = Ports()
        self._api: ToxiproxyServer | None = None
        self._links: dict[LinkKey, ToxicLink] = {}
        self._disks: dict[str, Disk] = {}
        self._environment: dict[str, object] = {"backend": self.name}

    @property
    def backend(self) -> str:
        return self.name

    @property
    def nodes(self) -> Mapping[str, N]:
        return {name: self._servers[name] for name in self._spec.nodes}

    @property
    def resource(self) -> N:
        return self._servers[RESOURCE]

    @property
    def sentinels(self) -> Mapping[str, N]:
        return {name: self._servers[name] for name in self._spec.sentinels}

    @property
    def links(self) -> Mapping[LinkKey, ToxicLink]:
        return self._links

    @property
    def addresses(self) -> dict[str, Address]:
        return {name: server.address for name, server in self._servers.items()}

    @property
    def members(self) -> MemberNetwork | None:
        return None

    @property
    def access(self) -> Access:
        return self._spec.access

    @property
    def proxy_socket(self) -> Path:
        return self._state.path / _PROXY_FOLDER / _PROXY_SOCKET

    def start(self, called_off: CalledOff = never) -> None:
        """Bring everything up. Raises BrokenEnvironmentError or CalledOffError, after everything was taken down
        again."""
        if self._is_started:
            return
        self._is_started, self._called_off = True, called_off
        try:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            self._make_clocks()
            facts = self._start_servers()
            self._go_on()
            spec, addresses = self._spec, self.addresses
            self._links = make_links(self._proxy(), spec.link_keys, addresses, self._ports)
            self._links |= make_links(self._proxy(), spec.member_link_keys, addresses, self._member_ports())
            self._replicate()
            self._await_group()
            self._environment = self._describe(facts)
        except BaseException as error:
            try:
                self.stop()
            except BrokenEnvironmentError as second:
                error.add_note(str(second))
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise disk_error(error, self._log_dir.parent) from error
            if isinstance(error, OSError):
                raise BrokenEnvironmentError(f"the cluster cannot be started: {error}") from error
            if isinstance(error, NotInTimeError):
                self._go_on()
            raise

    def stop(self) -> None:
        """Take everything down, SIGKILL to all, and delete the servers' data and disks; the logs stay.

        Raises BrokenEnvironmentError only if something cannot be removed; a sweep finds it.
        """
        if not self._is_started:
            return
        self._is_started = False
        self._api, self._links = None, {}
        disks, self._disks = self._disks, {}
        try:
            self._end_servers()
            remove_disks(disks)
            shutil.rmtree(self.proxy_socket.parent, ignore_errors=True)
            shutil.rmtree(self._state.path / _CLOCKS_FOLDER, ignore_errors=True)
        finally:
            self._ports.close()

    def impair(
        self, links: Collection[LinkKey], owner: str, impairment: Impairment, called_off: CalledOff = never
    ) -> None:
        self._proxy().impair(self._ways(links), owner, impairment, called_off)

    def restore(self, links: Collection[LinkKey], owner: str, called_off: CalledOff = never) -> None:
        self._proxy().impair(self._ways(links), owner, None, called_off)

    def _ways(self, links: Collection[LinkKey]) -> list[ToxicLink]:
        """The links, and those to the sentinels beside the members that they lead to."""
        beside = {member: name for name, member in self._spec.hosts.items() if name != member}
        more = [(client, beside[node]) for client, node in links if node in beside]
        return [self._links[key] for key in (*links, *more)]

    def heal(self, called_off: CalledOff = never) -> None:
        if self._api is not None:
            self._api.heal_all(self._links.values(), lambda: called_off() or self._patience.is_over())

    def unread(self) -> Collection[LinkKey]:
        return self._unread.look()

    @cached_property
    def _unread(self) -> UnreadReplies:
        return UnreadReplies({key: link.address for key, link in self._links.items() if key[1] != RESOURCE})

    def probe(self, links: Sequence[LinkKey], timeout_ms: float = 100) -> dict[LinkKey, ProbeResult]:
        by_probe: dict[ProbeLinks, dict[LinkKey, Address]] = {}
        for key in links:
            server = self._servers[key[1]]
            address = self._links[key].address.behind(server.address.login)
            by_probe.setdefault(server.server.probe_links, {})[key] = address
        addresses = self.addresses
        seen = at_once(partial(probe, targets, addresses, timeout_ms) for probe, targets in by_probe.items())
        return {key: result for results in seen for key, result in results.items()}

    def parts(self) -> Sequence[Part]:
        return [*self._servers.values(), ProxyPart(self._look_at_proxy)]

    def key_reader(self) -> KeyReader | None:
        open_reader = self._spec.server.server.key_reader
        return None if open_reader is None else open_reader({name: node.address for name, node in self.nodes.items()})

    def environment(self) -> dict[str, object]:
        return self._environment

    @abstractmethod
    def _make_node(self, name: str) -> N:
        """The server of that name, not started."""

    @abstractmethod
    def _start_servers(self) -> Mapping[str, object]:
        """Start all servers, on their disks, and Toxiproxy (`_start_proxy`); return what `environment` says of them.
        An OSError is reported as a cluster that cannot be started."""

    @abstractmethod
    def _member_ports(self) -> Ports:
        """Ports at which a server can dial a link."""

    @abstractmethod
    def _launch_proxy(self, folder: Path, socket: str) -> Callable[[], bool]:
        """Start a Toxiproxy that will listen at a Unix socket of this name in the folder; whether it runs."""

    @abstractmethod
    def _look_at_proxy(self, within_ms: float) -> Seen:
        """How Toxiproxy is."""

    @abstractmethod
    def _end_servers(self) -> None:
        """End all servers and Toxiproxy, however far their start got."""

    def _go_on(self) -> None:
        """Asked before every step of the start. Raises CalledOffError."""
        if self._called_off():
            raise CalledOffError("the start of the cluster was called off")

    def _start_proxy(self) -> None:
        self._go_on()
        socket = self.proxy_socket
        socket.parent.mkdir(mode=0o700)
        self._owner.take(socket.parent)
        if self._wire is not None:
            self._wire.mkdir(mode=0o700)
            self._owner.take(self._wire)
        is_running = self._launch_proxy(socket.parent, socket.name)
        self._api = ToxiproxyServer(socket)
        self._api.wait_until_up(is_running, VERB_LIMIT_S)
        if self._wire is not None:
            self._api.record(MOST_BYTES, self.access.secrets)

    def _replicate(self) -> None:
        """Make the nodes what they are to each other."""
        if self._spec.replication == "none":
            return
        self._go_on()
        primary, *replicas = self.nodes.values()
        for node in self.nodes.values():
            node.when_up(partial(replication.introduce, node))
        at_once(
            partial(replication.follow, node, primary, self._links[node.name, primary.name].address, self._patience)
            for node in replicas
        )
        if self._spec.sentinels:
            self._go_on()
            replication.watch(self.sentinels.values(), primary, len(replicas), self._patience)

    def _await_group(self) -> None:
        """Until a write succeeds through each member, if the nodes are one group."""
        if (group := self._spec.group) is None:
            return
        self._go_on()
        waiting = [
            partial(
                self._patience.becomes_true,
                partial(group.serves, node.address, _SERVES_MS),
                f"a write through {node.name}",
                within_s=group.forms_within_s,
                every_s=0.02,
            )
            for node in self.nodes.values()
        ]
        late = [name for name, serves in zip(self.nodes, at_once(waiting), strict=True) if not serves]
        if late:
            raise BrokenEnvironmentError(
                f"no write through {listed(late)} succeeds within {group.forms_within_s:g} s of the start; see logs/"
            )

    def _make_clocks(self) -> None:
        """Give each node its clock, if clocks are asked for."""
        if (library := self._spec.clock_library) is not None:
            for name, node in self.nodes.items():
                node.give(WallClock(self._state.path / _CLOCKS_FOLDER / name, library))

    def _make_disks(self) -> Mapping[str, object]:
        """Give each node its disk, if disks are asked for; what `environment` says of them."""
        if self._spec.disks is None:
            return {}
        self._go_on()
        self._disks = make_disks(self._state, self._spec.nodes, self._spec.disks, self._owner)
        for name, disk in self._disks.items():
            self._servers[name].put_on(disk)
        return disk_facts(self._disks)

    def _proxy(self) -> ToxiproxyServer:
        assert self._api is not None
        return self._api

    def _describe(self, facts: Mapping[str, object]) -> dict[str, object]:
        group = self._spec.group
        return {
            "backend": self.name,
            "persistence": {"nodes": self._spec.policy, "resource": self._spec.policies[RESOURCE]},
            "servers_run_as": str(self._owner),
            "clocks": self._spec.clock_library is not None,
            "replication": self._spec.replication,
            "group": group
            and {"settles_within_ms": group.settles_within_ms, "only_leader_serves": group.only_leader_serves},
            "key_events": self._spec.server.server.key_events is not None,
            "session_ends_with_connection": self._spec.server.server.session_ends_with_connection,
            "wire": self._wire is not None,
            "addresses": {name: str(address) for name, address in self.addresses.items()},
            **facts,
        }
