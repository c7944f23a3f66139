"""The protocols of what is tested: `Lock`, and the `Lease` that it grants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from fencepost.history import Round
from workloads.options import LockOptions


class NodeAddress(NamedTuple):
    """Where a lock dials a node (through the client's own link)."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"


class LockSettings(LockOptions, frozen=True, kw_only=True):
    """What a lock is opened with: the options of `workloads.options.LockOptions`, and these.

    `rng`: the only source of randomness that has to be repeatable (delays). Unique values use `os.urandom`.
    `log_path`: where a foreign library's own output goes; None: nowhere.
    """

    rng: Random = msgspec.field(default_factory=Random)
    log_path: Path | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """What an acquire returned.

    `validity_ms`: for how long the lock said that it is held, counted from the moment it computed that.
    That moment is known exactly (`deadline_ns` is set: the end of the validity on CLOCK_MONOTONIC), or bounded
    (`computed_after_ns` … `computed_before_ns`), or neither: then the client's own stamps around the call bound it.
    `requested_ns`: the moment before the first request of the round that granted it, where the lock shows it.
    `value`: best what the lock set on the nodes, so that what they hold can be traced to its owner.
    `token`: a fencing token that the lock itself granted. `handle`: whatever a recipe needs to release it.
    """

    key: str
    value: str
    validity_ms: float
    deadline_ns: int | None = None
    computed_after_ns: int | None = None
    computed_before_ns: int | None = None
    requested_ns: int | None = None
    token: int | None = None
    handle: object = None


class Lock(Protocol):
    """A distributed lock as its user sees it. One instance serves one client process, one call at a time.

    An exception from any call means that nobody can know what happened (`info`). `None` and `False` are definite.
    """

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        """Try to get the lock; may retry for as long as the recipe says. None: it was refused."""
        ...

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        """Prolong a lease to `ttl_ms` from now. None: it was refused, and the old lease holds until its end."""
        ...

    def release(self, lease: Lease) -> bool:
        """Give it back. False: it was not held any more on a majority."""
        ...

    def close(self) -> None:
        """Let go of connections and children. Never raises."""
        ...

    def describe(self) -> dict[str, object]:
        """Versions, timeouts, retries: what belongs in a report about this lock. `acquire_limit_ms`, if it is there, is
        the longest that an acquire may take by the lock's own settings, and is held against it."""
        ...


@runtime_checkable
class ShowsRounds(Protocol):
    """An optional ability of a lock: it shows what each node answered, so that a finding can be explained."""

    def take_rounds(self) -> list[Round]:
        """The rounds since they were last taken, in order; they are forgotten. Empty if nobody was asked."""
        ...


LockFactory = Callable[[Sequence[NodeAddress], LockSettings], Lock]
"""How a recipe is opened; a class whose constructor takes these two arguments is one. It connects and warms up."""
