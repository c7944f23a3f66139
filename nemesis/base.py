"""What goes wrong: a `Nemesis` draws `Fault`s as data before the run; a fault is injected, probed and healed.

A new nemesis is one module in this folder with a `NEMESIS` object in it; nothing else needs an edit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, runtime_checkable

import msgspec

from cluster.address import LinkKey
from cluster.base import CalledOff, Cluster, NotInTimeError, never
from cluster.server import Ability
from cluster.wall_clock import ClockAhead, ClockSetting
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Impact
from fencepost.quorum import quorum

FaultClass = Literal[
    "connections refused",
    "link silent",
    "requests lost",
    "replies lost",
    "reply lost once",
    "link held",
    "requests held",
    "replies held",
    "both ways slow",
    "requests slow",
    "replies slow",
    "jitter",
    "narrow link",
    "in pieces",
    "client stopped",
    "client killed",
    "node hung",
    "node killed",
    "node shut down",
    "node without power",
    "node damaged",
    "node answers errors",
    "node clock stepped",
    "node clock drifting",
    "node clock strobing",
    "client clock stepped",
    "client clock drifting",
    "client clock strobing",
]
"""What a fault is to a lock. `lost`: it never arrives. `held`: it arrives when the fault is healed."""

Step = Literal["inside", "acquiring", "extending", "releasing"]
"""Where a fault can catch a client. `inside`: between acquire and release, also while it extends."""


class Client(Protocol):
    """One client process group, as far as a nemesis may touch it. All methods are idempotent and return after their
    effect was observed."""

    @property
    def name(self) -> str:
        """`c1` …: the name of the slot, which a restarted client keeps."""
        ...

    def is_at(self, step: Step) -> bool:
        """Whether the client currently reports that it is there."""
        ...

    def keys_at(self, step: Step) -> Set[int]:
        """The checksums of the keys for which its tasks are there."""
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
        """Start a new process in the same slot, after `kill`. Returns immediately; `is_alive` shows when it works
        again."""
        ...

    def is_alive(self) -> bool: ...

    def set_clock(self, setting: ClockSetting) -> None:
        """Set its wall clock, also that of its foreign library, in this life and in all later ones; `RIGHT` makes it
        that of this machine again. Raises BrokenEnvironmentError if it has no clock of its own."""
        ...

    def clock_ahead_ms(self, timeout_ms: float = 1_000) -> ClockAhead | None:
        """By how much its wall clock is ahead of this machine's, as another process with the same clock says. None if
        the client does not use that clock."""
        ...


@dataclass(frozen=True, slots=True)
class Topology:
    """The system that a schedule is drawn for. Equal topologies, options and seeds give equal schedules."""

    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    ttl_ms: int

    @property
    def majority(self) -> int:
        return quorum(len(self.nodes))


@dataclass(frozen=True, slots=True)
class World:
    """What a fault acts on during the run. `called_off`: whether what is under way should be given up, because the load
    is over or the user asked to stop. `out_of_time`: whether nothing is looked at again and again any more, because the
    user asked to stop a moment ago, or the time for healing is over. `kept_down`: by node, the ids of the active faults
    that keep it down; the node is started again when the last of them is healed. `sleep`: for so many seconds, between
    two looks whether the moment has come that a fault is aimed at; other faults are injected and healed meanwhile."""

    cluster: Cluster
    clients: Mapping[str, Client]
    topology: Topology
    called_off: CalledOff = never
    out_of_time: CalledOff = never
    kept_down: dict[str, set[str]] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep


class LateError(BrokenEnvironmentError):
    """A fault was not injected in time. `impact`: what it may have hit."""

    def __init__(self, impact: Impact, why: NotInTimeError) -> None:
        super().__init__(str(why))
        self.impact = impact


@contextmanager
def hitting(impact: Impact) -> Iterator[None]:
    """What injects a fault that may hit all of this, whether or not it is done in time."""
    try:
        yield
    except NotInTimeError as late:
        raise LateError(impact, late) from late


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a probe saw: whether the fault is active (or gone), and one line for people."""

    holds: bool
    seen: str


class Targets(NamedTuple):
    """What a fault hits, by name; a link by its client and its node. `are_candidates`: which of them is decided when
    the fault is injected."""

    links: tuple[LinkKey, ...] = ()
    nodes: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    are_candidates: bool = False


class Needs(NamedTuple):
    """What a run must offer before a fault can be played: a disk, or a clock, of its own for each node; a policy by
    which nodes keep something; what the nodes' server must be able to do."""

    disks: bool = False
    clocks: bool = False
    persistence: bool = False
    server: frozenset[Ability] = frozenset()


class Fault(Protocol):
    """One planned fault: frozen data (a msgspec struct) and its methods. `owner` is its id in the schedule.
    `TargetFields` has the first three members."""

    @property
    def targets(self) -> Targets:
        """What it hits: checked when a schedule is loaded, and reduced when one is shrunk."""
        ...

    def only(self, targets: Targets) -> Fault:
        """The same fault, of no more than these of its targets."""
        ...

    @property
    def needs(self) -> Needs: ...

    def describe(self) -> str:
        """One short line for people: `drop data both ways (minority): c1,c2 | n3`."""
        ...

    def inject(self, world: World, owner: str) -> Impact:
        """Inject the fault. Choices that depend on the current state (who is inside?) are made here, using numbers in
        the data. Raises LateError if it was not done in time."""
        ...

    def probe(self, world: World, impact: Impact) -> Evidence:
        """Whether it took effect, observed independently of the call that injected it. `holds` is False if it had no
        effect."""
        ...

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        """Undo it, even if it was injected only in part, and prove that it is gone. Raises NotInTimeError if it was not
        undone in time; then it is asked again, at the latest when the load is over."""
        ...


def needed_of(fault: Fault) -> frozenset[Ability]:
    """What it needs of the nodes' server, which must be the run's own for a fault that hits nodes."""
    own: frozenset[Ability] = frozenset({"nodes of the run's own"} if fault.targets.nodes else ())
    return fault.needs.server | own


TARGET_FIELDS: Final = frozenset({"links", "nodes", "clients"})


class TargetFields(msgspec.Struct, frozen=True):
    """A fault that needs nothing, and hits what its fields `links`, `nodes` and `clients` name, those of them that it
    has."""

    @property
    def targets(self) -> Targets:
        fields = msgspec.structs.asdict(self)
        return Targets(**{name: fields[name] for name in TARGET_FIELDS & fields.keys()})

    def only(self, targets: Targets) -> Self:
        """Its description no longer names a shape or a choice that is not all there."""
        changes = targets._asdict() | dict.fromkeys(("shape", "label"), "shrunk")
        return msgspec.structs.replace(
            self, **{name: changes[name] for name in self.__struct_fields__ if name in changes}
        )

    @property
    def needs(self) -> Needs:
        return Needs()


class Trigger(NamedTuple):
    """An ordinary fault that an adaptive fault wants to be injected now. `duration_ms`: None means for as long as the
    adaptive fault itself is active."""

    nemesis: str
    fault: Fault
    duration_ms: int | None


class Observer(Protocol):
    """Watches the run for an adaptive fault while that fault is active."""

    def look(self, now_ms: float) -> Sequence[Trigger]:
        """The faults to inject now; usually none. Called every few milliseconds, takes one or two, and changes nothing
        itself. `now_ms`: since the start of the load."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Adaptive(Protocol):
    """A fault that does nothing itself but waits for opportunities. The faults that it triggers are ordinary faults, so
    that the run can be replayed without it."""

    def observe(self, world: World) -> Observer: ...


@runtime_checkable
class HasClass(Protocol):
    """An optional property of a fault: its class, by which it is counted."""

    @property
    def fault_class(self) -> FaultClass: ...


@runtime_checkable
class Nemesis(Protocol):
    """A source of faults of one kind."""

    @property
    def name(self) -> str:
        """Its name for `--nemesis`."""
        ...

    @property
    def help(self) -> str:
        """One line for `--help`, with its options."""
        ...

    @property
    def options(self) -> type[msgspec.Struct]:
        """Its options with their defaults: `interval` (a `Duration`, the mean time between two starts) and its own."""
        ...

    @property
    def faults(self) -> type[msgspec.Struct]:
        """The struct that `draw` returns; used to read a saved schedule."""
        ...

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Fault, int]:
        """The next fault and its duration in milliseconds. Uses only `rng` for randomness."""
        ...


class Turn(NamedTuple):
    """A part of every period of time, in TTLs: from `begin` to `end` of each `period`. `alone`: there is one fault in
    it, and calm for the rest of it."""

    period: float
    begin: float
    end: float
    alone: bool = False

    def fit(self, at_ms: int, lasts_ms: int, ttl_ms: int) -> tuple[int, int]:
        """When a fault that is due at `at_ms` begins and how long it lasts: the first time from then on at which it
        fits. It is shortened to the whole turn if it is longer."""
        length_ms = round((self.end - self.begin) * ttl_ms)
        lasts_ms = min(lasts_ms, length_ms)
        number = self.number(at_ms, ttl_ms)
        while True:
            begin_ms = round((number * self.period + self.begin) * ttl_ms)
            start_ms = max(at_ms, begin_ms)
            if start_ms + lasts_ms <= begin_ms + length_ms:
                return start_ms, lasts_ms
            number += 1

    def number(self, at_ms: int, ttl_ms: int) -> int:
        """In which period this time is, from 0 on."""
        return int(at_ms // (self.period * ttl_ms))

    def free_ms(self, at_ms: int, ends_ms: int, ttl_ms: int) -> int:
        """When the next fault may begin after one that begins at `at_ms` and is healed by `ends_ms`."""
        return max(ends_ms, round((self.number(at_ms, ttl_ms) + 1) * self.period * ttl_ms)) if self.alone else ends_ms


class Deck(NamedTuple):
    """Specs of one nemesis each (`partition:kind=hold`): all of them are played once, in random order, before any comes
    again; during its `turn`, or all the time. `pace`: how many faults come in the interval of the mix. `early`: so many
    specs, from the first one on, are played before the others the first time, because a short run needs them most."""

    specs: tuple[str, ...]
    turn: Turn | None = None
    pace: float = 1
    early: int = 0


@runtime_checkable
class Mix(Protocol):
    """A source of faults of many kinds, several of them in force at once. It draws nothing itself: its faults are those
    of other nemeses."""

    @property
    def name(self) -> str:
        """Its name for `--nemesis`."""
        ...

    @property
    def help(self) -> str:
        """One line for `--help`, with its options."""
        ...

    @property
    def options(self) -> type[msgspec.Struct]:
        """Its options with their defaults: `interval`, the mean time between two starts in one lane, and its own."""
        ...

    def lanes(self, options: Any, /) -> Mapping[str, Deck]:
        """Faults of one lane follow each other, those of two lanes overlap."""
        ...
