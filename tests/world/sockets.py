"""Links with their faults, and sockets that dial them. What passes is recorded as the proxy records it."""

from __future__ import annotations

import errno
import select
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

import hiredis
import msgspec

from cluster.address import LinkKey, ProbeResult
from cluster.base import CalledOff, CutKind, Direction, Impairment, never
from cluster.redis_keys import keys_of
from tests.nemesis.fakes import FakeCluster, FakeLink
from tests.world.clock import Clock, Fiber
from tests.world.node import Asker, Store, said_words

_WAYS: Final = ("to-node", "from-node")


@dataclass
class Link(FakeLink):
    """`send` … : what a byte meets on its way. `rows`, `opened`: the record of requests and of connections."""

    clock: Clock = None  # type: ignore[assignment]
    server: Store = None  # type: ignore[assignment]
    rows: list[dict[str, Any]] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)
    jitter_ms: dict[str, int] = field(default_factory=dict)
    connections: list[Connection] = field(default_factory=list)

    def cut(self, owner: str, kind: CutKind, direction: Direction) -> None:
        super().cut(owner, kind, direction)
        if kind == "refuse" and direction == "both":
            self.lose_all()

    def delay(self, owner: str, delay_ms: int, jitter_ms: int, direction: Direction) -> None:
        super().delay(owner, delay_ms, jitter_ms, direction)
        self.jitter_ms[owner] = jitter_ms

    def heal(self, owner: str) -> None:
        kind = self.cuts.get(owner, ("", ""))[0]
        super().heal(owner)
        self.jitter_ms.pop(owner, None)
        if kind == "drop":
            self.lose_all()
        for connection in list(self.connections):
            for way in _WAYS:
                connection.pump(way)

    def lose_all(self) -> None:
        for connection in list(self.connections):
            connection.lose()

    def is_cut(self, kind: CutKind, way: str) -> bool:
        return any(cut == kind and direction in (way, "both") for cut, direction in self.cuts.values())

    def late_ns(self, way: str) -> float:
        """How late a chunk is, without faults and with them."""
        rng, late_ms = self.clock.rng, 0.0
        for owner, (delay_ms, direction) in self.delays.items():
            if direction in (way, "both"):
                jitter_ms = self.jitter_ms.get(owner, 0)
                late_ms += max(0.0, delay_ms + rng.uniform(-jitter_ms, jitter_ms))
        return late_ms * 1e6 + rng.expovariate(1 / 15_000)

    def hop_ns(self) -> float:
        """From one process to the next."""
        rng = self.clock.rng
        return 15_000 + rng.expovariate(1 / 25_000) + (rng.expovariate(1 / 3e6) if rng.random() < 0.002 else 0)


class Connection:
    """One connection over a link. `chunks`: by way, what the proxy has and has not sent on."""

    def __init__(self, link: Link, end: Socket) -> None:
        self.link, self.end, self.is_lost = link, end, False
        self.number = len(link.opened) + 1
        self.asker = Asker(10_000 + self.number, self._answered)
        self.chunks: dict[str, deque[tuple[Any, list[dict[str, Any]]]]] = {way: deque() for way in _WAYS}
        self._asked: deque[dict[str, Any]] = deque()
        self._last_ns = dict[str, int]()
        link.connections.append(self)
        link.server.connections.append(self)
        self._is_half = False
        self._row = {"client": link.client, "node": link.node, "connection": self.number, "by": "client"}
        self._row |= {"node_port": self.asker.port, "opened_ns": link.clock.now_ns, "is_reached": True}
        if link.rows is not None:
            link.opened.append(self._row)
        if not link.server.running:
            self._row["is_reached"] = False
            link.clock.after(link.hop_ns(), self.lose)

    def send(self, data: bytes) -> None:
        reader = hiredis.Reader(encoding="utf-8")
        reader.feed(data)
        rows = []
        while (words := reader.gets()) is not False:
            said = said_words(words)
            row = {**{name: self._row[name] for name in ("client", "node", "connection", "by")}, "words": words}
            row |= {"user": "default", "database": 0, "command": said[0], "arguments": said[1:]}
            rows.append(row | {"keys": list(keys_of(said[0], said[1:]))})
        self._then("sent", self.link.hop_ns(), partial(self._in_proxy, "to-node", len(data), rows))

    def _then(self, step: str, in_ns: float, call: Callable[[], object]) -> None:
        """What is sent over a connection keeps its order at each step of its way."""
        clock = self.link.clock
        due_ns = self._last_ns[step] = max(self._last_ns.get(step, 0), clock.now_ns + int(in_ns))
        clock.after(due_ns - clock.now_ns, call)

    def _in_proxy(self, way: str, what: Any, rows: list[dict[str, Any]]) -> None:
        if self.is_lost:
            return
        now_ns = self.link.clock.now_ns
        for row in rows:
            row["from_client_ns" if way == "to-node" else "from_node_ns"] = now_ns
            if way == "to-node" and self.link.rows is not None:
                self.link.rows.append(row)
        self.chunks[way].append((what, rows))
        self.pump(way)

    def pump(self, way: str) -> None:
        """Send on what may pass."""
        link, chunks = self.link, self.chunks[way]
        if chunks and link.is_cut("refuse", way):
            self.lose()
        if link.is_cut("drop", way):
            chunks.clear()
        while chunks and not link.is_cut("hold", way) and not self.is_lost:
            self._then(way, link.late_ns(way), partial(self._pass, way, *chunks.popleft()))
        if self._is_half and not link.is_cut("hold", "from-node"):
            self.lose()

    def _pass(self, way: str, what: Any, rows: list[dict[str, Any]]) -> None:
        if self.is_lost or (self._is_half and way == "to-node"):
            return
        for row in rows:
            row["to_node_ns" if way == "to-node" else "to_client_ns"] = self.link.clock.now_ns
        if way == "from-node":
            self._then("told", self.link.hop_ns(), partial(self.end.arrived, what))
            return
        for row in rows:
            self._asked.append(row)
            self._then("asked", self.link.hop_ns(), partial(self.link.server.receive, self.asker, row["words"]))

    def _answered(self, reply: Any) -> None:
        rows = [self._asked.popleft()] if self._asked else []
        for row in rows:
            row["reply"] = msgspec.json.encode(_shown(reply)).decode()
        self._then("answered", self.link.hop_ns(), partial(self._in_proxy, "from-node", encoded(reply), rows))

    def lose_node(self) -> None:
        """The node ended. Its client learns of it when nothing holds what comes from there."""
        self._is_half = True
        self._row.setdefault("node_closed_ns", self.link.clock.now_ns)
        self.pump("from-node")

    def lose(self) -> None:
        """Both sides find it closed."""
        if not self.is_lost:
            self.is_lost = True
            self.link.connections.remove(self)
            self.link.server.connections.remove(self)
            self.link.server.listeners = [each for each in self.link.server.listeners if each is not self.asker]
            self._row.setdefault("node_closed_ns", self.link.clock.now_ns)
            self.end.ended()

    def closed(self) -> None:
        """By the client. What is on its way there still arrives."""
        self._row.setdefault("client_closed_ns", self.link.clock.now_ns)


def encoded(reply: Any) -> bytes:
    if isinstance(reply, Exception):
        return f"-{reply}\r\n".encode()
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(encoded, reply))
    if isinstance(reply, bytes):
        return b"+" + reply + b"\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    return b"$-1\r\n" if reply is None else b"$%d\r\n%b\r\n" % (len(reply.encode()), reply.encode())


def _shown(reply: Any) -> Any:
    if isinstance(reply, Exception):
        return {"error": str(reply)}
    return reply.decode() if isinstance(reply, bytes) else reply


class Network(FakeCluster):
    """`by_port`: the links that can be dialled."""

    clock: Clock
    by_port: dict[int, Link]

    def impair(self, links: Any, owner: str, impairment: Impairment, called_off: CalledOff = never) -> None:
        super().impair(links, owner, impairment, called_off)
        self.clock.sleep(0.002)

    def restore(self, links: Any, owner: str, called_off: CalledOff = never) -> None:
        super().restore(links, owner, called_off)
        self.clock.sleep(0.002)

    def unread(self) -> set[LinkKey]:
        return {key for key, link in self.links.items() for each in link.connections if each.end.arrivals}

    def heal(self, called_off: CalledOff = never) -> None:
        for link in self.links.values():
            for owner in link.owners():
                link.heal(owner)

    def probe(self, links: Sequence[LinkKey], timeout_ms: float = 100) -> dict[LinkKey, ProbeResult]:
        found = super().probe(links, timeout_ms)
        self.clock.sleep(max(result.elapsed_ms for result in found.values()) / 1e3)
        return found


class Socket:
    """As much of a socket as locks use. `clock`, `network`: of the world that is played."""

    clock: ClassVar[Clock]
    network: ClassVar[Network]

    def __init__(self, *_: object) -> None:
        self.number = self.network.next_socket = getattr(self.network, "next_socket", 1_000) + 1
        self.arrivals: deque[bytes] = deque()
        self.is_ended = self.is_closed = False
        self.watchers: list[Fiber] = []
        self._connection: Connection | None = None
        self._timeout_s: float | None = None

    def fileno(self) -> int:
        return -1 if self.is_closed else self.number

    def setsockopt(self, *_: object) -> None: ...

    def getsockopt(self, *_: object) -> int:
        return 0

    def settimeout(self, seconds: float | None) -> None:
        self._timeout_s = seconds

    def connect_ex(self, address: tuple[str, int]) -> int:
        link = self.network.by_port[address[1]]
        if link.is_cut("refuse", "to-node") and link.is_cut("refuse", "from-node"):
            return errno.ECONNREFUSED
        self._connection = Connection(link, self)
        return errno.EINPROGRESS

    def send(self, data: bytes) -> int:
        if self.is_ended or self._connection is None:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        self.clock.monotonic_ns()
        self._connection.send(data)
        return len(data)

    sendall = send

    def recv(self, _: int) -> bytes:
        if not self.arrivals and not self.is_ended:
            if self._timeout_s is None:
                raise BlockingIOError
            await_events([self], self._timeout_s * 1e9, lambda: self.readable)
        if self.arrivals:
            return self.arrivals.popleft()
        if self.is_ended:
            return b""
        raise TimeoutError("timed out")

    def close(self) -> None:
        if self._connection is not None and not self.is_closed:
            self._connection.closed()
        self.is_closed = True

    @property
    def readable(self) -> bool:
        return bool(self.arrivals) or self.is_ended

    def arrived(self, data: bytes) -> None:
        self.arrivals.append(data)
        self._wake()

    def ended(self) -> None:
        self.is_ended = True
        self._wake()

    def _wake(self) -> None:
        for fiber in self.watchers:
            self.clock.wake(fiber)


def await_events(sockets: Sequence[Socket], for_ns: float, happened: Callable[[], Any]) -> None:
    clock = Socket.clock
    until_ns = clock.now_ns + int(for_ns)
    me = clock.current
    while not happened() and clock.now_ns < until_ns:
        for each in sockets:
            each.watchers.append(me)
        try:
            clock.wait(until_ns - clock.now_ns)
        finally:
            for each in sockets:
                each.watchers.remove(me)


class Poll:
    """`select.poll` of such sockets."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Socket, int]] = {}

    def register(self, one: Socket, events: int = select.POLLIN) -> None:
        self._of[one.number] = one, events

    modify = register

    def unregister(self, one: Socket) -> None:
        del self._of[one.number]

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        if not self._ready() and timeout_ms != 0:
            sockets = [one for one, _ in self._of.values()]
            await_events(sockets, 1e15 if timeout_ms is None else timeout_ms * 1e6, self._ready)
        return self._ready()

    def _ready(self) -> list[tuple[int, int]]:
        found = ((one, (select.POLLIN if one.readable else 0) | select.POLLOUT) for one, _ in self._of.values())
        return [(one.number, seen & self._of[one.number][1]) for one, seen in found if seen & self._of[one.number][1]]


def create_connection(address: tuple[str, int], timeout_s: float | None = None) -> Socket:
    made = Socket()
    if made.connect_ex(address) == errno.ECONNREFUSED:
        raise ConnectionRefusedError
    made.settimeout(timeout_s)
    return made


REPLACED: Final = {"poll": Poll, "socket": Socket, "create_connection": create_connection}
