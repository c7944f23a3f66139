"""The promises of a lock, as data: what each says, what breaks it, and when a run really puts it to the test.

A promise is broken by findings of the judge that blame the lock (docs/verdicts.md), and by nothing else. Each kind of
finding says which promise it breaks (`harness.promises.Surveyed`); that no client got in breaks the promise about the
fault that was in force.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.campaign.exposure import Stakes
from harness.campaign.folder import RunLine
from harness.campaign.measure import Blamed, Figures
from harness.checkers.kinds import kinds
from harness.checkers.late_grants import LATE_GRANT
from harness.promises import Surveyed
from harness.survey.grid import TTL_MS, Fault, Outage
from harness.survey.subjects import Subject

ENOUGH: Final = 6
"""A promise is kept if it was tested in so many runs and broken in none: with fewer, the exact 95 % interval would
not even exclude that it is broken every second time."""

LONG_MS: Final = 3 * TTL_MS
"""An outage of this length shows whether a lock can do without the server: any key of a former holder has expired, and
the judge, too, waits this long before it says that no client can get in."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A judged run with its exposure. `tells_deadline`: the lock tells its user when the lease will be over."""

    line: RunLine
    fault: Fault
    figures: Figures
    stakes: Stakes
    tells_deadline: bool = False

    @property
    def is_fault_in_force(self) -> bool:
        """Whether a fault was verified active; without faults there is nothing to verify."""
        return self.figures.faults_observed > 0

    def outages(self, how: Outage) -> list[float]:
        """How long no client was inside in each outage that is long enough, in ms."""
        return [
            outage.longest_idle_ms
            for outage in self.stakes.outages
            if outage.how == how and outage.lasted_ms >= LONG_MS and self.fault.outage == how
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """`says`: what the lock's user may rely on. `at_stake`: whether this run would have shown that it is broken.
    `counts`: when it is put to the test, for people. `cannot`: why it cannot be asked of a subject at all, None if it
    can. `doubt`: why a run in which it was tested and no finding broke it does not show that it was kept; empty if it
    does."""

    name: str
    title: str
    says: str
    counts: str
    at_stake: Callable[[Evidence], bool]
    cannot: Callable[[Subject, Sequence[Evidence]], str | None] = lambda *_: None
    doubt: Callable[[Evidence], str] = lambda _: ""

    def broken_by(self, evidence: Evidence) -> list[Blamed]:
        """The findings of this run that break it; none if a server's clock was set, which no lock of this kind
        survives."""
        if evidence.fault.sets_clocks:
            return []
        return [blamed for blamed in evidence.figures.blamed if self._is_broken_by(blamed, evidence)]

    def _is_broken_by(self, blamed: Blamed, evidence: Evidence) -> bool:
        surveyed = surveyed_as(blamed.kind)
        if surveyed == "exclusive" and not _is_the_librarys(evidence):
            return False
        if surveyed == "way in":
            return self.name == _WAYS_IN.get(evidence.fault.outage, "free")
        return self.would_break(blamed.kind, evidence.tells_deadline)

    def would_break(self, kind: str, tells_deadline: bool) -> bool:
        """Whether a finding of this kind breaks it, whatever the fault was."""
        if kind == LATE_GRANT.name and tells_deadline:
            return False  # The lock itself says that the lease is over: it is too short, which is safe.
        return surveyed_as(kind) == self.name

    def is_about(self, kind: str) -> bool:
        """Whether a finding of this kind may break it."""
        surveyed = surveyed_as(kind)
        return surveyed == self.name or (surveyed == "way in" and self.name in ("free", *_WAYS_IN.values()))


_WAYS_IN: Final[Mapping[Outage | None, str]] = {"down": "minority", "hung": "hung"}
"""The promise that clients get in while a server is in such an outage."""


def surveyed_as(kind: str) -> Surveyed | None:
    """What a finding of this kind says of a library; None if nothing, or if no checker declares it."""
    declared = kinds().get(kind)
    return declared.surveyed if declared else None


def _is_the_librarys(evidence: Evidence) -> bool:
    """Whether the overlaps are the library's own doing, and not that of servers that lost keys or had a wrong clock.
    Where that is not known, only a fault that does such things is an excuse."""
    parts = evidence.stakes.overlaps_by_part
    if parts and parts.get("library"):
        return True
    known = bool(parts) and not (parts or {}).get("unknown")
    return not known and not evidence.fault.sets_clocks


def is_the_servers(evidence: Evidence) -> bool:
    """Whether two were inside in this run, and the servers are the only ones to blame."""
    return any(surveyed_as(blamed.kind) == "exclusive" for blamed in evidence.figures.blamed) and not _is_the_librarys(
        evidence
    )


def _is_used(evidence: Evidence) -> bool:
    """Whether clients got in, in a run without faults or with one that was verified active."""
    return evidence.figures.grants > 1 and (evidence.is_fault_in_force or not evidence.figures.faults_planned)


def _is_extended(evidence: Evidence) -> bool:
    """Renewals are not counted: the judge does not see them one by one."""
    extended = evidence.stakes.calls.get("extend", {}).get("ok")
    renews = evidence.line.cell.endswith("· renewed")
    return evidence.is_fault_in_force and bool(extended) and not renews


def _acquires_met_faults(evidence: Evidence) -> bool:
    return evidence.stakes.acquire_limit_ms is not None and bool(evidence.stakes.met.get("acquire"))


def _survives(how: Outage, **texts: str) -> Promise:
    """That clients get in while one server is in such an outage."""

    def doubt(evidence: Evidence) -> str:
        idle_ms = max(evidence.outages(how))
        if idle_ms < LONG_MS:
            return ""
        limit_ms = evidence.stakes.acquire_limit_ms
        allowed = f", and the library allows an acquire {limit_ms / 1e3:g} s" if limit_ms else ""
        return f"no client was inside for {idle_ms / 1e3:.1f} s{allowed}"

    def at_stake(evidence: Evidence) -> bool:
        return bool(evidence.outages(how))

    def cannot(subject: Subject, _: Sequence[Evidence]) -> str | None:
        return "it uses one server, so there is no minority" if subject.nodes == 1 else None

    return Promise(**texts, at_stake=at_stake, cannot=cannot, doubt=doubt)


def _sets_no_limit(_: Subject, evidence: Sequence[Evidence]) -> str | None:
    unlimited = evidence and all(each.stakes.acquire_limit_ms is None for each in evidence)
    return "the library has no known limit" if unlimited else None


PROMISES: Final = (
    Promise(
        name="exclusive",
        title="exclusive",
        says="Two clients are never inside at the same time, as long as both are within the time that the lock told "
        "them.",
        counts="Clients got in, and a fault was verified active or none was planned.",
        at_stake=_is_used,
    ),
    Promise(
        name="validity",
        title="validity true",
        says="A client that is told that it holds the lock does hold it, for as long as the lock says. A lease that is "
        "shorter than its keys live is safe, and counts as true.",
        counts="As for exclusive.",
        at_stake=_is_used,
    ),
    Promise(
        name="extension",
        title="extension safe",
        says="An extension that was granted extends the holder's own lock, in time and on a majority of the servers.",
        counts="A lease was extended in a run with a fault verified active.",
        at_stake=_is_extended,
        cannot=lambda subject, _: None if subject.extends else "its users cannot extend a lease",
    ),
    Promise(
        name="free",
        title="comes free within the TTL",
        says="When a holder or a server fails, no client has to wait for longer than the TTL.",
        counts="A key lost its owner: its client was killed, or a release or an attempt did not reach every server.",
        at_stake=lambda evidence: evidence.is_fault_in_force and bool(evidence.figures.orphans),
    ),
    Promise(
        name="orphans",
        title="leaves no orphans",
        says="A release, and an attempt that was refused, delete their keys on every server that can be reached.",
        counts="The servers showed keys whose owners were done with them, and nothing was in the way of deleting them.",
        at_stake=lambda evidence: bool(evidence.stakes.keys_looked_at),
    ),
    Promise(
        name="timeout",
        title="returns within its own timeout",
        says="A call that asks for the lock returns within the time that the library's own settings allow.",
        counts="The library sets a limit, and a fault was in force while a client asked for the lock.",
        at_stake=_acquires_met_faults,
        cannot=_sets_no_limit,
    ),
    _survives(
        "down",
        name="minority",
        title="works with a minority down",
        says="While one server of five is down, clients go on getting the lock.",
        counts="One server was down for three TTLs or longer, and nothing else was wrong. If no client was inside for "
        "that long, the run does not count as kept.",
    ),
    _survives(
        "hung",
        name="hung",
        title="survives a hung node",
        says="While one server of five hangs, clients go on getting the lock.",
        counts="One server hung for three TTLs or longer, and nothing else was wrong. If no client was inside for so "
        "long meanwhile, the run does not count as kept.",
    ),
    Promise(
        name="tokens",
        title="tokens increase",
        says="The fencing token of each grant is larger than those of all grants before it.",
        counts="As for exclusive.",
        at_stake=_is_used,
        cannot=lambda subject, _: None if subject.has_tokens else "it has no fencing tokens",
    ),
)
