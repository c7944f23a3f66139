"""What a server is: the class `Server`, and what only some servers can do.

A server is one module in `cluster/servers/` with a `SERVER` object in it; nothing else needs an edit. It is stateless:
it says how its program is found, started, asked and told, and both backends do the rest. What it cannot do is None, and
a run that needs it is refused before anything starts.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

from cluster.address import Address, LinkKey, ProbeResult
from cluster.credentials import Access, Login
from cluster.data_files import DataFiles
from cluster.persistence import Policy

if TYPE_CHECKING:
    from cluster.key_events import KeyEventStream
    from cluster.requests import Decode

Ability = Literal[
    "a clean shutdown",
    "a list of keys",
    "a clock that can be read",
    "files that can be damaged",
    "writes that can be refused",
    "members that talk to each other",
    "nodes of the run's own",
]
"""What a fault may need of the nodes' server, in the words of an error message."""

Holdings = Mapping[str, Mapping[str, bytes | None]]
"""By node, for the nodes that answered: the live keys and their values: a string's bytes, a hash's fields joined by `,
`; None for any other type."""

Lifetimes = Mapping[str, Mapping[str, int]]
"""The same with the milliseconds that each key has left."""


class Place(NamedTuple):
    """Where and how a server runs. `host` and `port`: where it listens; the host is 0.0.0.0 in a container, whose
    network is closed to others. `folder`: where its data go, as the server sees it: its working
    directory, or a path. `access`: who may
    talk to it. `name`: its own. `members`: where each member of its group is, by name; empty without a group."""

    host: str
    port: int
    folder: str
    policy: Policy
    access: Access
    name: str = ""
    members: Mapping[str, str] = MappingProxyType({})


class Group(NamedTuple):
    """What servers of one kind are to each other if they are the members of one group, which decides by a majority.

    `port`: at which clients dial each of them; each has an address to itself. `leader`: the name of the member that
    leads, according to the members that answer in so many milliseconds; None if they name no leader, or several.
    `serves`: whether a write through this member succeeds within the time. A member may be up without that: it has no
    majority behind it. `forms_within_s`: how long the first start may take, until writes succeed through each member.
    `settles_within_ms`: how long the others may need to elect another leader, and how much longer a lease may then
    last.

    `only_leader_serves`: a client must reach the leader itself. Then `serves` is whether the member does its part: it
    leads, or copies the leader. `sentinel_port`: where the sentinel beside each member listens, which clients ask who
    leads; None: there are none. `forgets`: a member that was killed comes back as another one, with nothing. So a group
    is lost for good if a majority of it is killed before the restarted members have rejoined.
    """

    port: int
    leader: Callable[[Mapping[str, Address], float], str | None]
    serves: Callable[[Address, float], bool]
    forms_within_s: float
    settles_within_ms: float
    only_leader_serves: bool = False
    sentinel_port: int | None = None
    forgets: bool = False


class KeyReader(Protocol):
    """Sees which nodes hold which live keys. A context manager that closes its connections."""

    def look(self, timeout_ms: float = 30) -> Holdings:
        """What each node that answers within the time holds right now; marks of probes are left out."""
        ...

    def lifetimes(self, timeout_ms: float = 30) -> Lifetimes:
        """How long the keys of each node that answers within the time have left to live; of what never expires, less
        than nothing."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


OpenKeyEvents = Callable[[str, Address], "KeyEventStream"]
"""Opens the events of the node with this name, at this address."""

OpenKeyReader = Callable[[Mapping[str, Address]], KeyReader]
"""Opens a reader of these nodes, by name."""

ProbeLinks = Callable[[Mapping[LinkKey, Address], Mapping[str, Address], float], dict[LinkKey, ProbeResult]]
"""Takes the links' addresses, where each node itself listens, and the time limit in milliseconds.
Sends one harmless command through each link at the same time, and asks the nodes which of them they executed."""

Query = Callable[[Address, str, float], Sequence[Sequence[str | None]]]
"""Runs SQL in the clients' database, with a timeout in milliseconds; returns the rows. Raises OSError."""

ReadClock = Callable[[Address, float], int]
"""Asks a server for its wall clock, in nanoseconds since 1970, within so many milliseconds. Raises OSError if it does
not answer."""

ReadDenials = Callable[[Address, float], Mapping[str, int]]
"""Asks a server, within so many milliseconds, how many requests it turned away since it was started for want of a login
or of a right: by the first word of the error. Raises OSError if it does not answer."""

ShutDown = Callable[[Address, float], None]
"""Tells a server to save and end, within so many milliseconds. Raises BrokenEnvironmentError if it refuses."""


Refusal = Literal["out of memory", "no replicas"]
"""Why a server answers writes with errors. `out of memory`: it takes no new keys, but deletes and prolongs old ones.
`no replicas`: it takes no write at all. Either way it answers reads, and keys expire."""


class WriteErrors(NamedTuple):
    """`refuse`: lets a server refuse writes for this reason, or for none any more. `seen`: the first word of the error
    that a harmless write is answered with; empty if it is done. Both take a time limit in milliseconds. They raise
    OSError if the server does not answer."""

    refuse: Callable[[Address, Refusal | None, float], None]
    seen: Callable[[Address, float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(ABC):
    """One kind of server. Every call returns within its time limit, or soon.

    A kind is a subclass. By default it can do nothing that only some servers can, asks for no password, has no files,
    and its configuration cannot be asked.
    """

    name: str
    """What `--server` calls it: lower-case letters, digits and dashes."""
    help: str
    """One line for `--help`."""
    family: str
    """What locks that run on it speak: those of Redis and its descendants say `redis`."""

    programs: tuple[str, ...]
    """The names of the program; the first one that is found is used. Empty if it is not the run that starts it."""
    version_option: str = "--version"
    """The option with which the program prints its version and ends."""
    needs_tree: bool = False
    """Whether the program reads files beside it. Each run then copies the whole tree of set-up, `bin` and what is
    beside that, into the server's folder; where servers work as a user of their own, it is all that they see."""
    policies: tuple[Policy, ...]
    """The persistence policies that it can be configured for. The first one is chosen where the usual one is not among
    them."""

    probe_links: ProbeLinks
    """Servers with the same function are probed together."""
    takes_logins: bool = False
    """Whether it asks for the passwords of `Place.access`. If not, other users of the machine can talk to it where a
    run has no network namespace of its own, and the run says so."""
    session_ends_with_connection: bool = False
    """Whether a session, and with it every lock that it holds, ends when its connection is closed. If not, a client may
    carry its session on to another connection, or there are none."""
    is_scriptable: bool = False
    """Whether it runs the Lua scripts of the resource (`workloads/resource.py`)."""

    # What only some servers can do.

    group: Group | None = None
    """None: its servers are independent of each other. Otherwise `answers` is about the one server, whether or not it
    has a majority behind it."""
    shut_down: ShutDown | None = None
    """None: there is no clean shutdown."""
    read_clock: ReadClock | None = None
    """None: it does not say what time it is, so a set clock could not be verified."""
    key_events: OpenKeyEvents | None = None
    """None: its keys cannot be watched, so its nodes are not witnessed."""
    key_reader: OpenKeyReader | None = None
    """None: its keys cannot be listed."""
    data_files: DataFiles | None = None
    """None: it is unknown where it keeps its keys, so its files cannot be damaged."""
    write_errors: WriteErrors | None = None
    """None: it cannot be made to refuse writes."""
    read_denials: ReadDenials | None = None
    """None: it does not count them."""
    query: Query | None = None
    """None: it is no database, so it cannot keep what a lock protects."""

    @property
    def decode(self) -> Decode | None:
        """Reads its protocol. None: what goes over its links is recorded as connections and bytes only."""
        return None

    @property
    def sentinel(self) -> Server | None:
        """The same program as a sentinel, which watches a primary and its replicas. None: it cannot be one."""
        return None

    @property
    def elsewhere(self) -> Server | None:
        """The same kind of server where it is not the run's own: it can do what is about the run's keys alone. None: a
        run cannot use one."""
        return None

    # The program.

    @abstractmethod
    def version_in(self, output: str) -> str | None:
        """The version, if this is what this server's program prints; None for another program's output."""

    @abstractmethod
    def arguments(self, place: Place) -> list[str]:
        """The arguments with which its program runs there, in the foreground, logging to stdout or stderr."""

    def files(self, place: Place) -> Mapping[str, bytes]:
        """What lies in its folder when it is started there for the first time, by path."""
        del place
        return {}

    def reread(self, content: bytes) -> bytes:
        """What the next start reads of one of these files, as the server left it. Its user may be unable to enter its
        folder by a path."""
        return content

    # The running server.

    @abstractmethod
    def answers(self, address: Address, timeout_ms: float, pid: int | None = None) -> bool:
        """Whether a server there is ready for work. With `pid`: and whether it is that process, as far as it can be
        asked."""

    @abstractmethod
    def running_version(self, address: Address, timeout_ms: float) -> str:
        """The version that a running server reports. Raises OSError if it does not answer."""

    def effective_config(self, address: Address, timeout_ms: float) -> Mapping[str, str]:
        """The configuration of a running server; empty for one that cannot be asked. Raises OSError if it does not
        answer."""
        del address, timeout_ms
        return {}

    def config_mismatch(self, policy: Policy, effective: Mapping[str, str]) -> str | None:
        """How the effective configuration differs from the policy, in one line; None if it does not."""
        del policy, effective
        return None

    def log_in(self, connection: socket.socket, login: Login) -> None:  # noqa: B027 - most kinds have no logins
        """Log in over an open connection. Raises OSError if that is refused."""

    @abstractmethod
    def ping(self, connection: socket.socket) -> None:
        """Send a small harmless request over an open connection and read the whole reply. Raises OSError."""

    @abstractmethod
    def url(self, host: str, port: int, password: str | None = None) -> str:
        """What a lock dials, as the client libraries of this server spell it."""


def abilities(server: Server) -> frozenset[Ability]:
    """What faults may need and this server has."""
    has: dict[Ability, object] = {
        "a clean shutdown": server.shut_down,
        "a list of keys": server.key_reader,
        "a clock that can be read": server.read_clock,
        "files that can be damaged": server.data_files,
        "writes that can be refused": server.write_errors,
        "members that talk to each other": server.group,
        "nodes of the run's own": server.programs or None,
    }
    return frozenset(ability for ability, part in has.items() if part is not None)
