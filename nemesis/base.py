"""What goes wrong: a `Nemesis` draws `Fault`s as data before the run; a fault is injected, probed and healed.

A new nemesis is one module in this folder with a `NEMESIS` object in it; nothing else needs an edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from cluster.base import Cluster
from fencepost.history import Impact


class Client(Protocol):
    """One client process group, as far as a nemesis may touch it. All verbs are idempotent and return when their effect
    was seen."""

    @property
    def name(self) -> str:
        """`c1` … : the slot; a client that was killed and restarted keeps it."""
        ...

    def is_inside(self) -> bool:
        """Whether the client says, right now, that it is between acquire and release."""
        ...

    def is_acquiring(self) -> bool:
        """Whether the client says, right now, that it is trying to acquire."""
        ...

    def pause(self) -> None:
        """SIGSTOP to the client and its foreign library."""
        ...

    def resume(self) -> None: ...

    def is_paused(self) -> bool: ...

    def kill(self) -> None:
        """SIGKILL to the client and its foreign library."""
        ...

    def restart(self) -> None:
        """A fresh process in the same slot, after `kill`. Returns at once; `is_alive` tells when it works again."""
        ...

    def is_alive(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Topology:
    """What a schedule is drawn for; equal topologies, options and seeds give equal schedules."""

    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    ttl_ms: int

    @property
    def majority(self) -> int:
        return len(self.nodes) // 2 + 1


@dataclass(frozen=True, slots=True)
class World:
    """What a fault acts on during the run."""

    cluster: Cluster
    clients: Mapping[str, Client]
    topology: Topology


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a probe saw: whether the fault is in force (or gone), and one line for people."""

    holds: bool
    seen: str


class Fault(Protocol):
    """One planned fault: frozen data (a msgspec struct) and three verbs. `owner` is its id in the schedule."""

    def describe(self) -> str:
        """One short line for people: `drop both ways: c1,c2 | n3`."""
        ...

    def inject(self, world: World, owner: str) -> Impact:
        """Do it. Choices that depend on the moment (who is inside?) are made here, from numbers in the data."""
        ...

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Whether it took, seen independently of the call that did it. `holds` is False for a fault that missed."""
        ...

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        """Undo it, also when it was only half done, and prove that it is gone."""
        ...


class Trigger(NamedTuple):
    """An ordinary fault that an adaptive one asks to be injected now. `duration_ms`: None means for as long as the
    adaptive one itself is in force."""

    nemesis: str
    fault: Fault
    duration_ms: int | None


class Observer(Protocol):
    """Watches the run for an adaptive fault while that is in force."""

    def look(self, now_ms: float) -> Sequence[Trigger]:
        """The faults to inject now; usually none. Called every few milliseconds, takes one or two, and changes nothing
        itself. `now_ms`: since the start of the load."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Adaptive(Protocol):
    """A fault that does nothing itself, but waits for opportunities. What it asks for is played as ordinary faults, so
    that the run can be replayed without it."""

    def observe(self, world: World) -> Observer: ...


@runtime_checkable
class NeedsDisks(Protocol):
    """An optional property of a fault: it cuts the power of nodes, so they need disks of their own."""

    @property
    def needs_disks(self) -> bool: ...


class Nemesis(Protocol):
    """A source of faults of one kind."""

    @property
    def name(self) -> str:
        """What `--nemesis` calls it."""
        ...

    @property
    def help(self) -> str:
        """One line for `--help`, with its options."""
        ...

    @property
    def options(self) -> type[msgspec.Struct]:
        """Its options with their defaults: `interval` (a `Duration`, the mean time between begins) and its own."""
        ...

    @property
    def faults(self) -> type[msgspec.Struct]:
        """The struct that `draw` returns, to read a saved schedule with."""
        ...

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Fault, int]:
        """The next fault and its duration in milliseconds. Uses no randomness but `rng`."""
        ...
