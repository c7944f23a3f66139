"""The protocol of a lock under test, `Lock`, and the `Lease` that it grants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol, runtime_checkable

import msgspec

from workloads.options import LockOptions


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Where a lock connects to a node (through the client's own link). `url`: the same, as the node's server spells it
    for client libraries: `redis://127.0.0.1:26001/0`, or `redis://:password@127.0.0.1:26001/0`. `password`: None if
    the node asks for none. Neither is shown. `known_as`: host and port by which other servers, like a sentinel, speak
    of the node."""

    host: str
    port: int
    url: str = field(repr=False)
    password: str | None = field(default=None, repr=False)
    known_as: tuple[str, int] | None = None


class LockSettings(LockOptions, frozen=True, kw_only=True):
    """What a lock is opened with: the options of `workloads.options.LockOptions`, and these.

    `rng`: the only source of randomness that has to be repeatable (delays). Unique values use `os.urandom`.
    `log_path`: where a foreign library's own output goes; None: nowhere. `senders_path`: where its program notes which
    call sends what; None: that is not asked for.
    `manifest`: what the `lock.toml` of a foreign lock has in [settings] for its adapter. `sentinels`: where the lock
    connects to those who say which node is the primary; empty where none does.
    """

    rng: Random = msgspec.field(default_factory=Random)
    log_path: Path | None = None
    senders_path: Path | None = None
    manifest: Mapping[str, Any] = msgspec.field(default_factory=dict)
    sentinels: Sequence[NodeAddress] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """What an acquire returned.

    `validity_ms`: how long the lock says it is held, counted from the moment at which the lock computed this. None: the
    lock said yes and nothing else; then the lease is the TTL (or `granted_ms`), counted from a moment within the call.
    That moment is known exactly (`deadline_ns` is the end of the validity on CLOCK_MONOTONIC), or it is bounded
    (`computed_after_ns` … `computed_before_ns`), or neither; then the client's timestamps around the call bound it.
    `requested_ns`: the moment before the first request of the round that granted it, if the lock reports that.
    `value`: names the lease, and is unique among the client's own.
    `token`: a fencing token that the lock itself granted. `handle`: whatever a recipe needs to release the lock.
    `granted_ms`: the lease time that the keys have on the nodes, if it differs from the TTL that was asked for: some
    services round it.
    `open_ended`: the lock promised no time. It is held until it is released, or until the session ends that holds it.
    """

    key: str
    value: str
    validity_ms: float | None = None
    deadline_ns: int | None = None
    computed_after_ns: int | None = None
    computed_before_ns: int | None = None
    requested_ns: int | None = None
    token: int | None = None
    handle: object = None
    granted_ms: float | None = None
    open_ended: bool = False


class Lock(Protocol):
    """A distributed lock as its user sees it. One instance serves one client process. Its methods are called one at a
    time, except with `--tasks`: then as many threads call them at once, and each thread is an owner of its own.

    An exception from any call means that the outcome is unknown (`info`). `None` and `False` are definite.
    """

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        """Try to get the lock, with the recipe's own retries. None: it was refused."""
        ...

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        """Extend a lease to `ttl_ms` from now. None: it was refused, and the old lease holds until it expires."""
        ...

    def release(self, lease: Lease) -> bool:
        """Release the lock. False: a majority no longer held it."""
        ...

    def close(self) -> None:
        """Close connections and end child processes. Raises only if an earlier answer turns out to have been none."""
        ...

    def describe(self) -> dict[str, object]:
        """Versions, timeouts, retries: what a report about this lock should show. `acquire_limit_ms`, if present, is
        the longest time that an acquire may take by the lock's own settings; longer calls are counted as findings."""
        ...


@runtime_checkable
class ShowsError(Protocol):
    """An optional ability of a lock: it says in words why it refused."""

    def take_error(self) -> str | None:
        """What the lock said when it refused the last request; None if it said nothing, or did not refuse. Returned
        once. With several threads: the last request of the thread that asks."""
        ...


@runtime_checkable
class KnowsIfHeld(Protocol):
    """An optional ability of a lock that renews its lease by itself (`LockSettings.renewal_ms`)."""

    def is_held(self, lease: Lease) -> bool:
        """Whether this user still holds the lock, as the lock sees it."""
        ...


@runtime_checkable
class LetsReadersIn(Protocol):
    """An optional ability of a lock: many readers or one writer may be inside. `Lock.acquire` is the writer's."""

    def acquire_shared(self, key: str, ttl_ms: int) -> Lease | None:
        """As `Lock.acquire`, for a reader. Extended and released like any other lease."""
        ...


class CancelledCallError(Exception):
    """The user cancelled the call while it was under way: how far it got is unknown."""


@runtime_checkable
class CanBeCancelled(Protocol):
    """An optional ability of a lock: its user can cancel a call, as a task of asyncio is cancelled, or give up waiting
    for it. After a cancelled acquire the user does not hold the lock, and after a cancelled release no longer believes
    to hold it: whatever the call left on the nodes must be gone when its TTL is over."""

    def cancel_after(self, limit_ms: float) -> None:
        """The next call of this thread is cancelled once it has taken this long; it then raises
        `CancelledCallError`."""
        ...


@runtime_checkable
class RunsStatements(Protocol):
    """An optional ability of a lock that a transaction of a database holds: the data that it guards is there, too, and
    is committed by the release, or not at all."""

    def run(self, lease: Lease, statement: str, values: Sequence[str]) -> str | None:
        """Run a statement of SQL in the transaction, with the values of `$1`, `$2`, …; the first value of its first
        row, or None. An exception means that the outcome is unknown."""
        ...


@runtime_checkable
class RunsElsewhere(Protocol):
    """An optional ability of a lock: its work is done by processes of its own, which may stand still on their own."""

    @property
    def pids(self) -> Sequence[int]: ...


def other_processes(lock: Lock) -> Sequence[int]:
    """The processes, apart from the client's own, in which the lock works."""
    return lock.pids if isinstance(lock, RunsElsewhere) else ()


LockFactory = Callable[[Sequence[NodeAddress], LockSettings], Lock]
"""Opens a lock: connects it and warms it up. A class whose constructor takes these two arguments is a factory."""
