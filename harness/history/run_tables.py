"""What a run recorded, as tables: the files, and what follows from one table alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from fencepost.history import PROXY, ClientEnd, Denied, FaultEvent, KeyEvent, Timeline, process_of
from harness.config import RunConfig
from harness.history.change_causes import WireRecord
from harness.history.fault_windows import GroupFacts, longest_windows
from harness.history.groups import places_of, rows_of, where, which
from harness.history.heartbeats import Lags
from harness.history.key_holdings import Watched
from harness.history.leases import granted_open_ended
from harness.history.stretches import Lasting
from harness.history.wrong_clocks import WrongClocks
from workloads.kinds import find_workload

_NEVER_MS: Final = 1e11
"""Three years: longer than any run, and short enough to be counted in nanoseconds."""


class LinkTraffic(NamedTuple):
    """How many requests of a client the proxy received at its link to a node, before the load (`warm_up`) and since,
    and how many of those name a key; the harness's own do not count, requests that a fault kept from the node do."""

    client: str
    node: str
    warm_up: int
    load: int
    named: int = 0


class ForeignBytes(msgspec.Struct, frozen=True):
    """`bytes`: how many on a link are not of the protocol of its `server`."""

    client: str
    node: str
    server: str
    bytes: int


class WireGaps(NamedTuple):
    """What of the links' traffic is not on record. `ended_ns`: when the record had become too large; None if it did
    not."""

    ended_ns: int | None = None
    foreign: tuple[ForeignBytes, ...] = ()


_ALL_RECORDED: Final = WireGaps()


@dataclass(frozen=True, eq=False)
class RunTables:
    """What a run recorded, as tables (see `harness/store/columns.py` for the columns)."""

    config: RunConfig
    timeline: Timeline
    ops: pd.DataFrame
    """One row per operation: the fields of `fencepost.history.Op` and `client`, `life`."""
    sections: pd.DataFrame
    """One row per granted section; columns in `harness.history.sections`."""
    writes: pd.DataFrame
    """One row per accepted write, in the resource's order: the fields of `fencepost.history.Write`."""
    faults: tuple[FaultEvent, ...]
    ends: tuple[ClientEnd, ...]
    planned_faults: int
    """The number of faults in the schedule."""
    final_values: dict[str, int] | None
    """The values at the last read, by key; None if that read was never taken."""
    traffic: tuple[LinkTraffic, ...] | None = None
    """How much went over the links, without those with bytes of another protocol; None where that is not on record, or
    not to its end."""
    watched: Watched | None = None
    """What the nodes held; None if they were not watched."""
    unwatchable: str | None = None
    """The nodes' server, if its keys cannot be watched."""
    group: GroupFacts | None = None
    """What the nodes are if they are the members of one group; None if they are independent."""
    acquire_limit_ms: float | None = None
    """How long an acquire may take according to the lock; None if it declares nothing."""
    lock_has_process: bool = True
    """Whether the lock has, or may have, processes of its own beside its client."""
    kept_waiting: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By client, when it did not run although it was not stopped: it got no processor. Disjoint, in order. Also of the
    `PROXY`."""
    wire_gaps: WireGaps = _ALL_RECORDED
    denied: tuple[Denied, ...] = ()
    """Which requests the nodes turned away for want of a login or a right, and how many."""
    lags: tuple[Lags, ...] = ()
    """The scheduling delay of clients and the `HARNESS`; empty for a run that kept no beats."""
    is_scripted: bool = False
    """Whether a script played its steps, instead of a load and a schedule."""
    planned_ms: Mapping[str, float] = field(default_factory=dict)
    """When the faults of the schedule were to be injected, since the start of the load, by their ids."""
    is_vouched_for: bool = True
    """False for a run of an older fencepost, which left nothing that shows whether its files are whole."""
    is_sealed: bool = False
    """Whether what a run recorded before it was aborted is vouched for, all but the last moment."""
    doubts: tuple[str, ...] = ()
    """Why the run cannot be called valid, whatever its checkers say: it did not end as planned."""

    wire: Callable[[], WireRecord | None] = field(default=lambda: None)
    """Reads what went over the links; None where that is not on record."""
    sessions: Callable[[], pa.Table | None] = field(default=lambda: None)
    """Reads the connections of the links, as in `harness.store.wire`; None where they are not on record, or where a
    session of the nodes' server outlives its connection."""
    key_events: Callable[[], Iterable[KeyEvent]] = field(default=lambda: ())
    """Reads what the witness saw."""

    def at_ms(self, at_ns: int) -> float:
        """Milliseconds since the start of the load, as examples tell them."""
        return (int(at_ns) - self.timeline.start_ns) / 1e6

    def at_ns(self, at_ms: float) -> int:
        """The moment that an example tells."""
        return self.timeline.start_ns + round(float(at_ms) * 1e6)

    @cached_property
    def fault_windows(self) -> list[tuple[FaultEvent, int, int]]:
        """As `harness.history.fault_windows.longest_windows`."""
        return longest_windows(self.faults)

    def faults_within(self, from_ns: int, to_ns: int) -> list[FaultEvent]:
        """The faults that may have been in force at some time of these."""
        return [event for event, began, done in self.fault_windows if began <= to_ns and done >= from_ns]

    def waits_of(self, client: str) -> list[tuple[int, int]]:
        """When the client's process, or the proxy, was kept waiting: what it asked for may have come late."""
        whose = (process_of(client), PROXY)
        return [wait for who, waits in self.kept_waiting.items() if process_of(who) in whose for wait in waits]

    def calls(self, f: str, outcome: str = "", key: str = "") -> pd.DataFrame:
        """The operations of this kind; with this outcome and for this key, if there is one."""
        wanted = {"f": f, "outcome": outcome, "key": key}
        return where(self.ops, **{name: value for name, value in wanted.items() if value})

    def lasted(self, one: Lasting) -> dict[str, float]:
        """When it began, and for how long it lasted, as examples tell it."""
        return {"at_ms": self.at_ms(one.since_ns), "for_ms": one.length_ns / 1e6}

    @cached_property
    def places(self) -> dict[tuple[Any, ...], int]:
        """By client, life and number of a section: its place in `sections`. In the order of the places."""
        return places_of(self.sections)

    @cached_property
    def is_open_ended(self) -> bool:
        """Whether the lock promised no time with any of its grants."""
        granted = which(self.ops, f="acquire", outcome="ok")
        return bool(granted.any() and (granted_open_ended(self.ops) == granted).all())

    @cached_property
    def lease_ms(self) -> float:
        """The longest time for which the lock's keys may have been set: the TTL, or more if the lock granted more. A
        session that holds a lock without an end may not end, so nothing is said of when it comes free."""
        if self.is_open_ended:
            return _NEVER_MS
        granted = self.ops["granted_ms"].to_numpy(np.float64) if "granted_ms" in self.ops else np.zeros(0)
        return float(np.fmax.reduce(granted, initial=self.config.ttl_ms))

    @cached_property
    def permits(self) -> int:
        """How many clients may be inside one key at once: 1, unless the workload counts."""
        return self.config.permits if self.counts_permits else 1

    @cached_property
    def counts_permits(self) -> bool:
        """Whether the lock was used as a semaphore, if only with one permit."""
        return "capacity" in find_workload(self.config.workload).checkers

    @cached_property
    def is_exclusive(self) -> bool:
        """Whether only one client may be inside one key at once: the lock counts no permits, and no client came as a
        reader."""
        return self.permits == 1 and "shared" not in self.sections

    @cached_property
    def forgotten_sections(self) -> frozenset[int]:
        """The places of the sections that a client left without a release: it acquired again, as a program does that
        knows its lease is over. What a lock keeps of them, or goes on renewing, is their clients' doing."""
        last = self.calls("acquire").groupby(["client", "life"], observed=True)["invoke_ns"].max().to_dict()
        own = enumerate(rows_of(self.sections, "client", "life", "start_ns", "ended"))
        return frozenset(at for at, (*of, since_ns, ended) in own if ended == "open" and last[tuple(of)] > since_ns)

    @property
    def one_serves(self) -> bool:
        """Whether one node serves at a time, the primary or the leader, so that one yes is enough."""
        return self.config.replication != "none" or (self.group is not None and self.group.only_leader_serves)

    @property
    def had_no_access(self) -> bool:
        """Whether no client acquired the lock, and the nodes turned requests away: then nothing is known of the
        lock."""
        return bool(self.denied) and not len(self.sections)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the lock uses: those to which its clients sent requests during the load. A majority is one of
        these. All of them if it is not on record."""
        sent = {(link.client, link.node): link.load for link in self.traffic or ()}
        links = ((client, node) for node in self.config.node_names for client in self.config.client_names)
        used = {node for client, node in links if sent.get((client, node), 1)}
        return tuple(node for node in self.config.node_names if node in used) or tuple(self.config.node_names)

    @cached_property
    def wrong_clocks(self) -> WrongClocks:
        """When keys may have lived for another time than the lock asked for."""
        return WrongClocks.of(self.faults, self.lease_ms)
