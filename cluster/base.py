"""Nodes, the links to them, and the cluster that they make up: the protocols that faults and the harness use.

Two backends implement these protocols, `process` and `docker`. Every verb is idempotent: asking for a state that
already holds does nothing. Every verb returns only when the new state was *seen* to hold (by asking the server, the
kernel, or the proxy), or raises `BrokenEnvironmentError` that names what was seen instead. No verb outlasts ten
seconds, nor the moment at which the run was called off by more than two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from cluster.address import Address, LinkKey, ProbeResult
from fencepost.errors import BrokenEnvironmentError, FencepostError
from fencepost.history import PROXY

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.credentials import Access
    from cluster.footprint import Footprint
    from cluster.member_network import MemberNetwork
    from cluster.server import KeyReader, Refusal, Server
    from cluster.wall_clock import ClockAhead, ClockSetting

RESOURCE = "resource"
"""The name of the server that the lock protects; as a link's `node` it means the link to the resource."""

LOOPBACK = "127.0.0.1"
"""Where links listen."""

DIALLED_FROM = "127.0.0.2"
"""Where the harness's own requests over a link come from, so that they are not taken for the lock's."""

CutKind = Literal["refuse", "drop", "hold"]
"""How a link is cut.

`refuse`  connections are closed and new ones refused (both ways); in one direction only, where TCP has no refusal,
          the connection is reset as soon as a byte travels that way.
`drop`    connections hang, what is sent that way is lost; healing closes the connections.
`hold`    connections hang, what is sent that way arrives when the link heals: late, but it arrives.
"""

Direction = Literal["to-node", "from-node", "both"]
"""Which way the bytes are stopped. With `from-node` a node still *applies* commands; the reply is what is stopped."""


CalledOff = Callable[[], bool]
"""Asked while something takes its time: whether it should be given up."""


def never() -> bool:
    """As a `CalledOff`: go on until the time is up."""
    return False


class RemovedError(BrokenEnvironmentError):
    """The container of a part of the cluster is gone, and this run did not remove it."""

    def __init__(self, part: str) -> None:
        name = {PROXY: "Toxiproxy", RESOURCE: "the resource"}.get(part, part)
        super().__init__(
            f"the container of {name} was removed by another program (`docker rm` or `docker container prune`, "
            "perhaps), and a run cannot go on without it"
        )


class CalledOffError(FencepostError):
    """A start was called off before it was finished; what had been started was taken down again."""


class NotInTimeError(BrokenEnvironmentError):
    """A change was not finished in time, or was called off: it may have taken effect, in part, or still do so."""


class Cut(NamedTuple):
    """The link is cut in this way."""

    kind: CutKind
    direction: Direction


class Delay(NamedTuple):
    """Each byte is late by `delay_ms` ± `jitter_ms` in each of the directions named."""

    delay_ms: int
    jitter_ms: int
    direction: Direction


class Throttle(NamedTuple):
    """No more than so many bytes pass in each of the directions named."""

    rate_kb_per_s: int
    direction: Direction


class Slices(NamedTuple):
    """What passes in each of the directions named arrives in pieces of 1 to `PIECE_BYTES` bytes, `gap_ms` apart."""

    gap_ms: int
    direction: Direction


PIECE_BYTES = 3


class Reset(NamedTuple):
    """Every connection is reset (RST) as soon as it carries a byte, until healed. One that was open before is closed
    instead: Toxiproxy decides on an RST when a connection begins."""


Impairment = Cut | Delay | Throttle | Slices | Reset


Condition = Literal["as wanted", "changing", "up", "stopped", "silent", "starved", "down", "gone"]
"""How a part of the cluster is, compared with what the verbs made of it.

`as wanted`  it answers, or it is paused or down because a verb did that.
`changing`   a verb is at work, or the part was never started.
`up`         it runs although a verb paused it or took it down: undone from outside.
`stopped`    it is stopped (SIGSTOP, a paused container), and no verb did that.
`silent`     it runs and does not answer within the time.
`starved`    the same, and it is ready to run: it is not given a processor.
`down`       it has ended, or is another process than before, and no verb did that.
`gone`       its container was removed, and no verb did that: it cannot come back.
"""


class Part(Protocol):
    """Something that is expected to work all the time, except where a verb says otherwise: a server, or the proxy."""

    @property
    def name(self) -> str:
        """`n1` … `n9`, `resource`, `proxy`."""
        ...

    def condition(self, within_ms: float) -> Condition:
        """How it is now; takes little longer than the time that it has to answer. For any thread."""
        ...


class Node(Part, Protocol):
    """One server: a node of the lock, or the resource."""

    @property
    def server(self) -> Server:
        """Which kind of server it runs."""
        ...

    @property
    def address(self) -> Address:
        """Where the server itself listens, with no link in between, and the harness's login there. It stays the same
        over restarts."""
        ...

    def start(self) -> None:
        """Start the server and wait until it is ready for work."""
        ...

    def stop(self) -> None:
        """Shut down cleanly, saving what the persistence policy saves, and wait until it has ended. Raises
        BrokenEnvironmentError if its server has no clean shutdown."""
        ...

    def kill(self) -> None:
        """SIGKILL, whether it is paused or not, and wait until it has ended."""
        ...

    def cut_power(self) -> None:
        """Freeze the node's disk, so that everything that was not fsynced is lost, and then SIGKILL the server,
        running, paused or dead already. `start` brings the disk back first. Raises BrokenEnvironmentError if the node
        has no separate disk (`cluster.disk`): a kill would not be the same."""
        ...

    def truncate(self, place: int) -> str:
        """Cut what the server keeps on its disk, at this place (`cluster.data_files`), once while it is down. Says what
        was cut; empty if it runs, or keeps nothing. Raises BrokenEnvironmentError if it is unknown where its kind of
        server keeps its keys."""
        ...

    def forget(self) -> None:
        """Let a server that is down keep no key, as an operator does who sets damaged files aside; nothing happens to
        one that runs. Raises as `truncate`."""
        ...

    def pause(self) -> None:
        """SIGSTOP (or the freezer): connections are still accepted, nothing is answered. Waits until that is seen."""
        ...

    def resume(self) -> None:
        """Undo `pause` and wait until the server answers. Does nothing for a server that is down, or that was
        stopped from outside."""
        ...

    def refuse_writes(self, why: Refusal | None) -> None:
        """Let a server that runs answer writes with errors until it is restarted, or (None) not any more. Raises
        NotInTimeError if it does not answer, and BrokenEnvironmentError if its kind of server cannot do that."""
        ...

    def write_error(self, timeout_ms: float = 200) -> str | None:
        """The first word of the error that a harmless write is answered with; empty if it is done, None if nothing is
        answered."""
        ...

    def set_clock(self, setting: ClockSetting) -> None:
        """Set the server's wall clock, whether it runs or not; `RIGHT` makes it that of this machine again. Raises
        BrokenEnvironmentError if it has no clock of its own."""
        ...

    def clock_ahead_ms(self, timeout_ms: float = 1_000) -> ClockAhead | None:
        """By how much the server's wall clock is ahead of this machine's, as the server itself says. None if it does
        not answer, or its kind of server cannot be asked."""
        ...

    def was_taken_down(self) -> bool:
        """Whether a verb took the server down, so that `start` is due in the end."""
        ...

    def went_unasked(self) -> bool:
        """Whether the server has ended and no verb did that. It is not started again: it would come back without
        what it had promised to keep, at a time that no fault chose."""
        ...

    def is_up(self, timeout_ms: float = 200) -> bool:
        """Whether it answers within the time, asked directly: False for a paused, dead or hung server."""
        ...

    def effective_config(self) -> Mapping[str, str]:
        """The configuration that the running server reports; empty if its kind of server cannot be asked."""
        ...

    def log_text(self) -> str:
        """Everything the server logged so far, over restarts."""
        ...

    def footprint(self) -> Footprint | None:
        """The memory and the disk that it takes now; None for a server that is down, or where that is not known."""
        ...


class Link(Protocol):
    """The path from one client to one node, through Toxiproxy. `Cluster.impair` and `Cluster.restore` change many links
    together.

    Every impairment has an `owner` (the fault's id), so that faults overlap freely: healing one owner leaves the
    other's impairments in force. A second impairment by the same owner replaces the first.
    """

    @property
    def client(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def address(self) -> Address:
        """What the client dials."""
        ...

    def owners(self) -> frozenset[str]:
        """The owners of the active impairments: they explain why a healed link may still not pass bytes."""
        ...


class Cluster(Protocol):
    """N nodes, a resource, a Toxiproxy and a link for every client and server."""

    @property
    def backend(self) -> str:
        """`process` or `docker`."""
        ...

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The lock's nodes by name, in order; the resource is not one of them."""
        ...

    @property
    def resource(self) -> Node: ...

    @property
    def sentinels(self) -> Mapping[str, Node]:
        """Who watches the nodes, by name; mostly empty."""
        ...

    @property
    def links(self) -> Mapping[LinkKey, Link]:
        """By who dials and who is dialled."""
        ...

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where all servers listen, by name; once it was started."""
        ...

    @property
    def members(self) -> MemberNetwork | None:
        """What joins the nodes if they are the members of one group, and cuts them from each other."""
        ...

    @property
    def access(self) -> Access:
        """The logins of its servers."""
        ...

    @property
    def proxy_socket(self) -> Path:
        """The Unix socket of Toxiproxy's HTTP interface."""
        ...

    def start(self, called_off: CalledOff = never) -> None:
        """Bring everything up. On any failure everything is taken down again before the error is raised. Raises
        CalledOffError soon after it is called off. From then on, `heal` and the nodes' verbs raise NotInTimeError
        instead of waiting, but for one second in all."""
        ...

    def stop(self) -> None:
        """Take everything down and leave no trace; never raises for what is gone already."""
        ...

    def impair(
        self, links: Collection[LinkKey], owner: str, impairment: Impairment, called_off: CalledOff = never
    ) -> None:
        """Impair all of these links together, in place of what this owner did to them before; each is read back.

        Raises NotInTimeError if that took too long or was called off. Does as much as it can before it raises
        BrokenEnvironmentError for a link that could not be changed.
        """
        ...

    def restore(self, links: Collection[LinkKey], owner: str, called_off: CalledOff = never) -> None:
        """Remove what this owner did to these links; otherwise like `impair`. Only the links' states are read back; a
        probe shows whether bytes pass again."""
        ...

    def heal(self, called_off: CalledOff = never) -> None:
        """Remove every impairment from every link, regardless of its owner, and read back that none is left. Raises
        NotInTimeError if that took too long or was called off."""
        ...

    def probe(self, links: Sequence[LinkKey], timeout_ms: float = 100) -> dict[LinkKey, ProbeResult]:
        """Send one harmless command through each of the links at the same time, over fresh connections."""
        ...

    def unread(self) -> Collection[LinkKey]:
        """The links over which something has arrived at the client that it has not read yet."""
        ...

    def parts(self) -> Sequence[Part]:
        """Everything that should work: the nodes, the resource and the proxy; once it was started."""
        ...

    def key_reader(self) -> KeyReader | None:
        """Opens a reader of all nodes' keys; None if their server cannot list its keys."""
        ...

    def environment(self) -> dict[str, object]:
        """For `environment.json`: server and proxy versions, image digests and where they came from."""
        ...
