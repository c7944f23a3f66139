"""The sessions by which clients hold a lock, and wait for it: when their connections ended, as the proxy saw it; their
subscriptions on the nodes, how each one ended, and the messages that reached the clients.

A request that pushes onto a list and deletes it at once wakes no client that is blocked on it: the node serves such a
client when the request is over, and the list is gone by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.commands import BLOCK_ON_LISTS, LEAVE, LISTEN, PUSH
from harness.history.error_replies import ERROR_REPLY
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints, rows_of, where
from harness.history.ledger import Ledger
from harness.history.link_activity import Activity

if TYPE_CHECKING:
    from harness.history.change_causes import WireRecord

CONNECT: Final = "CONNECT"
"""A request for a session that outlives its connection, as on ZooKeeper."""
OF_THE_NODE: Final = "__key"
"""How the channels begin on which a node itself tells what happens to keys."""


class SessionEnds:
    """When the connections of each client to these nodes were opened and closed, and by which side. `connections`: as
    in `harness.store.wire`."""

    def __init__(self, connections: pa.Table, nodes: Collection[str]) -> None:
        is_own = pc.and_(pc.equal(connections["by"], "client"), pc.is_in(connections["node"], pa.array(list(nodes))))
        own = connections.filter(pc.and_(is_own, connections["is_reached"]))
        self._client = np.array(own["client"].to_pylist(), object)
        names = ("opened_ns", "client_closed_ns", "node_closed_ns")
        self._opened, self._by_client, by_node = (_times(own, name) for name in names)
        self._by_either = np.minimum(self._by_client, by_node)

    def of(self, client: str, asked_ns: int, start_ns: int, *, by_client: bool = False) -> int:
        """The latest time at which a session can have ended whose client asked for the lock and was granted it at these
        times; FOREVER_NS if it may have gone on. `by_client`: the client itself had closed by then."""
        closed = self._by_client if by_client else self._by_either
        is_own = self._client == process_of(client)
        may_hold = is_own & (self._opened <= start_ns) & (self._by_either >= asked_ns)
        return int(closed[may_hold].max()) if may_hold.any() else FOREVER_NS


def granted_sessions_ms(requests: pa.Table) -> Iterator[int]:
    """How long the nodes' server let each session of a client last without it; nothing where sessions end with their
    connections."""
    for row in _rows(requests, pa.array([CONNECT])):
        if row["reply"] is not None and not row["reply"].startswith(ERROR_REPLY):
            yield msgspec.json.decode(row["reply"])[1]


def _times(table: pa.Table, name: str) -> Ints:
    times: Ints = table[name].fill_null(FOREVER_NS).to_numpy()
    return times


class Subscription(NamedTuple):
    """`channels`: of PSUBSCRIBE, patterns. `sent_ns`: when its request came to the proxy. `until_ns`: when it ended,
    or forever. `is_lost`: the node or the proxy closed its connection first, and the client had not asked for that.
    `by`: which of these."""

    node: str
    connection: int
    command: str
    channels: tuple[str, ...]
    sent_ns: int
    until_ns: int
    is_lost: bool
    by: str = "node"

    def names(self, word: str) -> bool:
        """Whether this word is one of its channels."""
        if self.command == "PSUBSCRIBE":
            return any(fnmatchcase(word, pattern) for pattern in self.channels)
        return word in self.channels

    @property
    def is_of_the_node(self) -> bool:
        return any(channel.startswith(OF_THE_NODE) for channel in self.channels)


class Message(NamedTuple):
    """One that a node sent to a subscriber. `told_ns`: when the client had it; -1 if it never did. `text`: the channel
    and what was said, as JSON."""

    client: str
    node: str
    from_node_ns: int
    told_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """By process, in the order in which they were asked for; and all messages, in the order of the table."""

    of: dict[str, list[Subscription]]
    messages: list[Message]

    def until_ns(self, client: str, from_ns: int) -> int:
        """Until when the process of the client was subscribed that was subscribed to something at this time."""
        own = self.of.get(process_of(client), ())
        return max((one.until_ns for one in own if one.sent_ns <= from_ns), default=from_ns)

    @classmethod
    def read(cls, wire: WireRecord) -> Self:
        found: defaultdict[str, list[Subscription]] = defaultdict(list)
        closed = closed_connections(wire.connections)
        left: defaultdict[int, list[int]] = defaultdict(list)
        asked = [row for row in _rows(wire.requests, pa.array([*LISTEN, *LEAVE])) if row["from_client_ns"] is not None]
        for row in asked:
            if row["command"] in LEAVE:
                left[row["connection"]].append(row["from_client_ns"])
        for row in sorted(asked, key=lambda row: row["from_client_ns"]):
            if row["command"] not in LISTEN:
                continue
            number, sent_ns = row["connection"], row["from_client_ns"]
            left_ns = min((at_ns for at_ns in left[number] if at_ns >= sent_ns), default=FOREVER_NS)
            by_client, by_node, by_proxy = closed.get(number, (FOREVER_NS,) * 3)
            lost_ns, own_ns = min(by_node, by_proxy), min(left_ns, by_client)
            is_lost = lost_ns < own_ns and row["to_client_ns"] is not None
            by = "node" if by_node <= by_proxy else "proxy"
            of = row["node"], number, row["command"], tuple(row["arguments"])
            found[row["client"]].append(Subscription(*of, sent_ns, min(lost_ns, own_ns), is_lost, by))
        return cls(dict(found), [_message(row) for row in _rows(wire.requests, pa.array([""]))])


def _rows(requests: pa.Table, commands: pa.Array) -> list[dict[str, Any]]:
    """The requests of clients with one of these commands; what nodes sent unasked has an empty one."""
    is_one = pc.is_in(requests["command"].cast(pa.string()), commands)
    rows: list[dict[str, Any]] = requests.filter(pc.and_(pc.equal(requests["by"], "client"), is_one)).to_pylist()
    return rows


def _message(row: Mapping[str, Any]) -> Message:
    from_node_ns, told_ns = (-1 if row[name] is None else row[name] for name in ("from_node_ns", "to_client_ns"))
    return Message(row["client"], row["node"], from_node_ns, told_ns, row["reply"] or "")


def closed_connections(connections: pa.Table) -> dict[int, tuple[int, ...]]:
    """By connection, when the client, the node and the proxy closed it."""
    names = ("client_closed_ns", "node_closed_ns", "proxy_closed_ns")
    times = (connections[name].fill_null(FOREVER_NS).to_pylist() for name in names)
    return dict(zip(connections["connection"].to_pylist(), zip(*times, strict=True), strict=True))


@dataclass(frozen=True)
class LostPushes:
    """By list, when it was deleted by the request that had pushed onto it, and in which row of the ledger."""

    of_list: Mapping[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        rows = ledger.rows
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        pushed: dict[str, int] = {}
        own = where(rows, key=where(rows, did=PUSH)["key"].unique().tolist())
        names = ("key", "what", "did", "request", "at_ns")
        for row, (key, what, did, request, at_ns) in zip(own.index.tolist(), rows_of(own, *names), strict=True):
            if did in PUSH:
                pushed[str(key)] = request
            elif what == "deleted" and request >= 0 and pushed.get(str(key)) == request:
                found[str(key)].append((at_ns, row))
        return cls(found)

    def missed(self, client: Activity, began_ns: int, until_ns: int) -> list[tuple[int, int]]:
        """Such pushes onto what the client was blocked on in this silence: when, and the row."""
        last = where(client.requests, client.requests["from_client_ns"].between(0, began_ns)).tail(1)
        if last.empty or last["command"].iloc[0] not in BLOCK_ON_LISTS:
            return []
        pushes = (one for key in last["keys"].iloc[0] for one in self.of_list.get(str(key), ()))
        return [one for one in pushes if began_ns < one[0] < until_ns]
