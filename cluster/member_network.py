"""A network for servers that talk to each other: a namespace for each, joined by a bridge, and cuts between them.

In containers the engine made both, and they are only entered (`enter`).

The bridge is in the network namespace of the caller, which has an address there, so what is beside the caller dials a
member by its address. A member is cut from another one in the receiver's namespace (iptables). Nothing is named outside
these namespaces. They live as long as this process holds them, or a server works in them, and vanish after that,
however the run ended.

A datagram, which needs no way back, shows whether a cut took: from a socket in the sender's namespace to one in the
receiver's.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from cluster.namespaces import keep_capabilities, pass_on_capabilities
from cluster.system_tools import find_tool
from fencepost.errors import BrokenEnvironmentError

MemberCut = Literal["refuse", "hold"]
"""How a member is kept from hearing another one. `hold`: its packets are dropped, so what was sent arrives when the cut
is healed, if the sender still tries. `refuse`: it answers each of them with a reset."""

Pair = tuple[str, str]
"""Who sends, and who does not receive it."""

Seen = Literal["heard", "refused", "silent"]
"""How a probe from one member to another ended."""

_NET: Final = "10.98.76"
_HOME: Final = f"{_NET}.1"
_FIRST: Final = 11
_BRIDGE: Final = "members"
_PROBED: Final = 9009
_CLONE_NEWNET: Final = 0x40000000
_OWN: Final = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class MemberNetwork:
    """`names`: the members. `folder`: for what the tools keep while they work. `hosts`: their addresses, if the network
    is there. For any thread that works in the namespace in which this was opened."""

    def __init__(self, names: Sequence[str], folder: Path, hosts: Mapping[str, str] | None = None) -> None:
        self.hosts = hosts or {name: f"{_NET}.{number}" for number, name in enumerate(names, _FIRST)}
        self._folder = folder
        self._has_bridge = False
        self._held = ExitStack()
        self._home = -1
        self._spaces: dict[str, int] = {}
        self._ears: dict[str, socket.socket] = {}
        self._doors: dict[str, socket.socket] = {}
        self._cuts: dict[str, tuple[MemberCut, frozenset[Pair]]] = {}
        self._changing = threading.RLock()
        self._probing = threading.Lock()

    def open(self) -> None:
        """Make the namespaces and join them. Raises BrokenEnvironmentError; then `close` is still due."""
        try:
            find_tool("iptables-restore")
            self._home = self._hold(os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC))
            for name in self.hosts:
                self._spaces[name] = self._hold(_new_namespace())
            self._has_bridge = True
            self._ip(
                f"link add {_BRIDGE} type bridge",
                f"addr add {_HOME}/24 dev {_BRIDGE}",
                f"link set {_BRIDGE} up",
                *(
                    line
                    for name, space in self._spaces.items()
                    for line in (
                        f"link add {_BRIDGE}-{name} type veth peer name {name}",
                        f"link set {name} netns /proc/self/fd/{space}",
                        f"link set {_BRIDGE}-{name} master {_BRIDGE} up",
                    )
                ),
            )
            for name, host in self.hosts.items():
                with self.inside(name):
                    self._ip("link set lo up", f"addr add {host}/24 dev {name}", f"link set {name} up")
            self._listen_inside()
            self._await_each_other()
        except OSError as error:
            raise BrokenEnvironmentError(f"the members' network cannot be made: {error.strerror or error}") from error

    def enter(self, pids: Mapping[str, int]) -> None:
        """Use the namespaces of these processes, by member. Raises BrokenEnvironmentError; then `close` is still
        due."""
        try:
            find_tool("iptables-restore")
            self._home = self._hold(os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC))
            for name, pid in pids.items():
                self._spaces[name] = self._hold(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
            self._listen_inside()
        except OSError as error:
            raise BrokenEnvironmentError(f"the members' network cannot be used: {error.strerror or error}") from error

    def _listen_inside(self) -> None:
        """Where probes arrive. Raises OSError."""
        for name, host in self.hosts.items():
            with self.inside(name):
                self._ears[name] = _open(self._held, socket.SOCK_DGRAM, host)
                self._doors[name] = _open(self._held, socket.SOCK_STREAM, host)
                self._doors[name].listen(64)

    def _await_each_other(self) -> None:
        """The kernel joins what was set up to the bridge by and by. Raises OSError, and BrokenEnvironmentError if some
        members do not hear each other in time: every probe would say that a cut took."""
        missing = [(sender, receiver) for sender in self.hosts for receiver in self.hosts if sender != receiver]
        deadline = time.monotonic() + _JOINED_WITHIN_S
        while missing := [pair for pair, seen in self.probe(missing).items() if seen != "heard"]:
            if time.monotonic() > deadline:
                named = ", ".join(f"{receiver} does not hear {sender}" for sender, receiver in missing)
                raise BrokenEnvironmentError(f"the members' network does not work: {named}")

    def close(self) -> None:
        """Let go of everything, and remove the bridge. Never raises."""
        if self._has_bridge:
            # The namespaces go with their members, and the rest with them.
            with self._changing, suppress(OSError, BrokenEnvironmentError):
                self._ip(f"link del {_BRIDGE}", *(f"link del {_BRIDGE}-{name}" for name in self._spaces))
        self._spaces.clear()
        self._held.close()

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """The calling thread, and what it starts, is in the member's namespace. Raises OSError."""
        with _in(self._spaces[name], self._home):
            yield

    def cut(self, owner: str, kind: MemberCut, pairs: Collection[Pair]) -> None:
        """Keep each receiver from hearing its sender, in place of what this owner cut before. Raises
        BrokenEnvironmentError."""
        self._change(owner, (kind, frozenset(pairs)))

    def restore(self, owner: str) -> None:
        """Undo what this owner cut. Raises BrokenEnvironmentError."""
        self._change(owner, None)

    def heal(self) -> None:
        """Undo every cut. Raises BrokenEnvironmentError."""
        for owner in list(self._cuts):
            self.restore(owner)

    def owners(self, pair: Pair) -> frozenset[str]:
        """Who cuts this pair."""
        return frozenset(owner for owner, (_, pairs) in list(self._cuts.items()) if pair in pairs)

    def probe(self, pairs: Collection[Pair], timeout_ms: float = 100) -> dict[Pair, Seen]:
        """How a message of each sender reaches its receiver, all at the same time. It depends on no server."""
        with self._probing:
            deadline = time.monotonic() + timeout_ms / 1e3
            nonce = os.urandom(8)
            messages = {nonce + f"{sender}>{receiver}".encode(): (sender, receiver) for sender, receiver in pairs}
            for message, (sender, receiver) in messages.items():
                self._ears[sender].sendto(message, (self.hosts[receiver], _PROBED))
            heard = self._listen(messages, deadline)
            refused = self._knock([pair for pair in pairs if pair not in heard], deadline)
        return {pair: "heard" if pair in heard else "refused" if pair in refused else "silent" for pair in pairs}

    def _listen(self, messages: Mapping[bytes, Pair], deadline: float) -> set[Pair]:
        poll, heard = select.poll(), set[Pair]()
        ears = {ear.fileno(): ear for ear in self._ears.values()}
        for number in ears:
            poll.register(number, select.POLLIN)
        while len(heard) < len(messages) and (left_s := deadline - time.monotonic()) > 0:
            for number, _ in poll.poll(left_s * 1e3):
                if (pair := messages.get(ears[number].recv(64))) is not None:
                    heard.add(pair)
        return heard

    def _knock(self, pairs: Sequence[Pair], deadline: float) -> set[Pair]:
        """The members that are refused when they dial. A reset comes at once, so little time is left for it."""
        with ExitStack() as opened:
            dialled = {}
            for sender, receiver in pairs:
                with self.inside(sender):
                    dial = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
                dial.setblocking(False)
                dial.connect_ex((self.hosts[receiver], _PROBED))
                dialled[dial.fileno()] = dial, (sender, receiver)
            poll, refused, pending = select.poll(), set[Pair](), len(dialled)
            for number in dialled:
                poll.register(number, select.POLLOUT)
            deadline = max(deadline, time.monotonic() + _REFUSED_WITHIN_S)
            while pending and (left_s := deadline - time.monotonic()) > 0:
                for number, _ in poll.poll(left_s * 1e3):
                    poll.unregister(number)
                    pending -= 1
                    dial, pair = dialled[number]
                    if dial.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in _REFUSALS:
                        refused.add(pair)
        return refused

    def _change(self, owner: str, cut: tuple[MemberCut, frozenset[Pair]] | None) -> None:
        with self._changing:
            before = self._cuts.pop(owner, None)
            if cut is not None:
                self._cuts[owner] = cut
            changed = {receiver for each in (before, cut) if each for _, receiver in each[1]}
            for receiver in changed:
                self._write_rules(receiver)

    def _write_rules(self, receiver: str) -> None:
        """All rules of a member, in place of those before. A packet that one fault drops is not refused by another."""
        held, refused = (
            sorted({a for each, pairs in self._cuts.values() if each == kind for a, b in pairs if b == receiver})
            for kind in ("hold", "refuse")
        )
        rules = [f"-A INPUT -s {self.hosts[sender]} -j DROP" for sender in held]
        for sender in refused:
            rules += [  # resets pass, or a refusal in both directions would be silence
                f"-A INPUT -s {self.hosts[sender]} -p tcp --tcp-flags RST RST -j ACCEPT",
                f"-A INPUT -s {self.hosts[sender]} -p tcp -j REJECT --reject-with tcp-reset",
                f"-A INPUT -s {self.hosts[sender]} -j DROP",
            ]
        with self.inside(receiver):
            self._run("iptables-restore", "\n".join(["*filter", ":INPUT ACCEPT", *rules, "COMMIT", ""]))

    def _ip(self, *lines: str) -> None:
        self._run("ip", "\n".join(lines) + "\n", "-batch", "-")

    def _run(self, tool: str, text: str, *arguments: str) -> None:
        with _passing_on():
            done = subprocess.run(
                [find_tool(tool), *arguments],
                input=text,
                capture_output=True,
                text=True,
                timeout=_TOOL_LIMIT_S,
                pass_fds=[*self._spaces.values()],
                env={**os.environ, "XTABLES_LOCKFILE": str(self._folder / "xtables.lock")},
            )
        if done.returncode:
            said = " / ".join(done.stderr.strip().splitlines()[-2:])
            raise BrokenEnvironmentError(f"the members' network cannot be changed: {tool}: {said}")

    def _hold(self, descriptor: int) -> int:
        self._held.callback(os.close, descriptor)
        return descriptor


_REFUSALS: Final = (111, 104)
"""ECONNREFUSED and ECONNRESET."""
_REFUSED_WITHIN_S: Final = 0.05
_TOOL_LIMIT_S: Final = 9.0
_JOINED_WITHIN_S: Final = 10.0


def _open(held: ExitStack, kind: socket.SocketKind, host: str) -> socket.socket:
    opened = held.enter_context(socket.socket(socket.AF_INET, kind))
    opened.bind((host, _PROBED))
    return opened


def _new_namespace() -> int:
    """A descriptor of a new network namespace; the calling thread stays where it is. Raises OSError."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _enter(home)
    finally:
        os.close(home)


@contextmanager
def _passing_on() -> Iterator[None]:
    """A tool that this thread starts may change namespaces as it may itself, which root's always may."""
    if os.geteuid() == 0:
        yield
        return
    pass_on_capabilities()
    try:
        yield
    finally:
        keep_capabilities()


@contextmanager
def _in(space: int, home: int) -> Iterator[None]:
    _enter(space)
    try:
        yield
    finally:
        _enter(home)


def _enter(space: int) -> None:
    """For the calling thread alone. Raises OSError."""
    if _libc.setns(space, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
