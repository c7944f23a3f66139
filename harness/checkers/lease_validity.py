"""Did the lock report a longer validity than it can have had?

The keys expire one TTL after they were set, and they were set after `requested_ns`, the moment before the first request
of the round that granted the lock. So no validity may end after `requested_ns` + TTL. The *earliest* possible end of
the validity is compared with that, so what is found is certain. A service may round the lease time; if the lock says
what was granted, that time is compared and not the TTL that was asked for. If the lock does not report `requested_ns`,
only the simple rule is left: no validity is longer than the TTL. A lock that says yes and nothing else reports no
validity that could be too long.

Libraries count in whole milliseconds, so an excess of less than one is taken for rounding.

Three more things follow with certainty from what the lock itself reports:

- A lease with no validity left must not be granted: its keys may have expired.
- A validity that ends within `SLEW` of `requested_ns` + TTL leaves nothing for clocks that run at different rates. NTP
  slews a healthy clock by that much, so the algorithm must allow for it. Without `requested_ns`, a validity as long as
  the TTL does not: it counts from a later moment. It does harm only if a clock really runs fast, so this finding breaks
  no requirement.
- An extension must be granted within the validity that it extends ("Distributed Locks with Redis"): after that,
  another client may have held the lock in between. The nodes say whether that was possible: it breaks the lease if for
  some time no majority of them held the client's value, and does no known harm otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from fencepost.text import milliseconds
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import how_sent
from harness.explain.words import at, lasting
from harness.figures import CheckerFigures
from harness.history.groups import Bools, Ints, rows_of, which
from harness.history.leases import SLEW, derive_leases, find_lapses
from harness.history.recorded import Recorded, named
from harness.verdict import Answer, Finding

ROUNDING_NS: Final = 1_000_000
_SHOWN: Final = ["client", "life", "section", "key", "complete_ns", "validity_ms"]


class Figures(CheckerFigures, frozen=True):
    """`with_request_time`: leases that show when they were requested. `without_validity`: over when they were granted.
    `without_allowance`: none for drifting clocks. Shown as findings."""

    leases: int
    with_request_time: int
    overstated: int
    without_validity: int
    without_allowance: int
    late_extensions: int


class _Wrong(NamedTuple):
    """What may be wrong with a lease. `amount`: what an example calls by how much. `text`: what {count} did, by up to
    {most}; {ttl} is what they were granted for."""

    kind: FindingKind
    amount: str
    text: str


def _overstated(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, ttl = case.example, run.lease_ms
    told = float(example["validity_ms"])
    text = f"At {case.at()} the lock reported a validity of {told:,.1f} ms to {example['client']}"
    side = case.named.get("section")
    if side is None or side.requested_ns is None or told > ttl:
        return Told(f"{text}, but keys live for {ttl:,.0f} ms: {float(example['too_long_by_ms']):,.1f} ms too long.")
    return Told(
        f"{text}, but it had requested the keys {lasting(side.start_ns - side.requested_ns)} before (at "
        f"{at(run, side.requested_ns)}), and they live for {ttl:,.0f} ms: "
        f"{float(example['too_long_by_ms']):,.1f} ms too long."
    )


def _lost(run: Recorded, evidence: Evidence, case: Case) -> Told:
    """Whether the extension set the key anew."""
    example, ledger = case.example, run.ledger
    text = (
        f"At {case.at()} an extension told {case.text('client')} that it held the lock, {case.lasting('late_by_ms')} "
        "after its lease had ended; for some time no majority of the nodes had held its key"
    )
    if ledger is not None:
        its = {"task": example["client"], "life": example["life"], "section": example["section"]}
        is_then = (ledger.rows["complete_ns"] - run.at_ns(example["at_ms"])).abs() <= 1
        own = which(ledger.rows, is_then, **its, what="set", f="extend")
        for row in np.flatnonzero(own)[-1:].tolist():
            how = how_sent(run, ledger.change(row))
            return Told(f"{text}. The extension set the key anew: {how}.", cause="set by an extension")
    return Told(f"{text}.")


OVERSTATED: Final = FindingKind(
    "overstated-validity",
    "lease",
    _overstated,
    stands_for="expired",
    noun="lease(s) with an overstated validity",
    surveyed="validity",
)
VOID: Final = FindingKind("no-validity", "lease", noun="lease(s) granted with no validity left", surveyed="validity")
NO_ALLOWANCE: Final = FindingKind("no-drift-allowance", "none", noun="lease(s) without an allowance for drift")
LOST_EXTENDED: Final = FindingKind(
    "lost-lease-extended", "lease", _lost, noun="lost lease(s) extended", surveyed="extension"
)
LATE_EXTENSION: Final = FindingKind("late-extension", "none")

_OVERSTATED: Final = _Wrong(
    OVERSTATED,
    "too_long_by_ms",
    "{count} were given a validity that ends after the {ttl}, by up to {most}",
)
_VOID: Final = _Wrong(
    VOID,
    "over_for_ms",
    "{count} were granted with no validity left: by the lock's own account they had expired, up to {most} before",
)
_TIGHT: Final = _Wrong(
    NO_ALLOWANCE,
    "after_request_ms",
    "{count} leave no allowance for clocks that run at different rates: their validity ends up to {most} after the "
    "request, with a {ttl}",
)
_BARE: Final = _Wrong(
    NO_ALLOWANCE,
    "validity_of_ms",
    "{count} leave no allowance for clocks that run at different rates: their validity is up to {most}, with a {ttl}",
)
_AFTER_A_GAP: Final = _Wrong(
    LOST_EXTENDED,
    "late_by_ms",
    "{count} are extensions that were granted up to {most} after the lease had expired, when for some time no majority "
    "of the nodes had held the client's key",
)
_LATE: Final = _Wrong(
    LATE_EXTENSION,
    "late_by_ms",
    "{count} are extensions that were granted up to {most} after the lease had expired; nothing shows that a majority "
    "of the nodes had lost the client's key by then",
)


def check(run: Recorded) -> Answer:
    leases = derive_leases(run.ops, run.faults)
    total, ttl_ms = len(leases), run.config.ttl_ms
    granted_ns = leases["granted_ms"].to_numpy(np.float64) * 1e6
    differ = np.isfinite(granted_ns) & (granted_ns != ttl_ms * 1_000_000)
    ttl_ns = np.where(differ, granted_ns, ttl_ms * 1_000_000).astype(np.int64)
    found = {
        wrong: leases[_SHOWN][which].assign(amount_ns=amount_ns[which])
        for wrong, which, amount_ns in _wrong_among(leases, ttl_ns, run)
    }
    figures = Figures(
        leases=total,
        with_request_time=int(leases["requested_ns"].notna().sum()),
        overstated=len(found[_OVERSTATED]),
        without_validity=len(found[_VOID]),
        without_allowance=len(found[_TIGHT]) + len(found[_BARE]),
        late_extensions=len(found[_AFTER_A_GAP]) + len(found[_LATE]),
    )
    ttl = "lease time as granted" if differ.any() else f"TTL of {ttl_ms} ms"
    findings = (_finding(run, wrong, some, total, ttl) for wrong, some in found.items() if len(some))
    return Answer(figures, tuple(findings))


def _wrong_among(leases: pd.DataFrame, ttl_ns: Ints, run: Recorded) -> Iterator[tuple[_Wrong, Bools, np.ndarray]]:
    """Each thing that may be wrong, of which leases it is, and by how many nanoseconds."""
    shown = leases["requested_ns"].notna().to_numpy()
    requested = leases["requested_ns"].fillna(0).to_numpy(np.int64)
    earliest: Ints = leases["deadline_min_ns"].to_numpy(np.int64)
    by_clock = earliest - requested - ttl_ns
    told = leases["validity_ms"].to_numpy(np.float64) * 1e6
    by_length = np.where(np.isfinite(told), told, 0) - ttl_ns
    excess_ns = np.where(shown, np.maximum(by_clock, by_length), by_length)
    over = (excess_ns >= ROUNDING_NS) & ~leases["told_at_return"].to_numpy(np.bool_)
    yield _OVERSTATED, over, excess_ns
    yield _VOID, told <= 0, np.abs(told)
    in_bounds = np.isfinite(told) & ~over
    yield _TIGHT, shown & in_bounds & (by_clock > -SLEW * ttl_ns), ttl_ns + by_clock
    yield _BARE, ~shown & in_bounds & (by_length > -SLEW * ttl_ns), ttl_ns + by_length
    late, late_ns = _late_extensions(leases)
    gap = _after_a_gap(run, leases, late)
    yield _AFTER_A_GAP, late & gap, late_ns
    yield _LATE, late & ~gap, late_ns


def _late_extensions(leases: pd.DataFrame) -> tuple[Bools, np.ndarray]:
    """Which leases are extensions that were computed after the previous lease had expired under every reading of the
    record, and how long after, in ns."""
    late, late_ns = np.zeros(len(leases), np.bool_), np.zeros(len(leases))
    if not (leases["f"] == "extend").any():
        return late, late_ns
    section = leases.groupby(["client", "life", "section"], observed=True, sort=False).ngroup()
    lapses = find_lapses(leases, np.asarray(section, np.int64))
    late[lapses.rows], late_ns[lapses.rows] = True, lapses.to_ns - lapses.from_ns
    return late, late_ns


def _after_a_gap(run: Recorded, leases: pd.DataFrame, late: Bools) -> Bools:
    """Which of these extensions were granted when certainly no majority of the nodes had held the client's value for
    some time since its section began, by the lock's doing. False where the nodes were not watched."""
    gap = np.zeros(len(leases), np.bool_)
    backing, rows = run.backing, np.flatnonzero(late)
    if backing is None or not backing.owners.are_shown or not len(rows):
        return gap
    names = ["client", "life", "section"]
    own = leases[[*names, "complete_ns"]].iloc[rows].assign(row=rows).astype({"client": str})
    sections = run.sections[[*names, "start_ns"]].assign(place=np.arange(len(run.sections))).astype({"client": str})
    for row, place, start_ns, complete_ns in rows_of(
        own.merge(sections, on=names), "row", "place", "start_ns", "complete_ns"
    ):
        if place in backing.owners.values:
            stretch = backing.unbacked(place, start_ns, complete_ns)
            gap[row] = stretch is not None and backing.is_the_locks_doing(stretch)
    return gap


def _finding(run: Recorded, wrong: _Wrong, found: pd.DataFrame, leases: int, ttl: str) -> Finding:
    """`found`: the leases that are wrong in this way, of so many `leases`."""
    found = found.sort_values("complete_ns", kind="stable")
    worst = int(found["amount_ns"].argmax())
    examples = [
        {
            **named(lease),
            "at_ms": run.at_ms(lease.complete_ns),
            "validity_ms": None if pd.isna(lease.validity_ms) else float(lease.validity_ms),
            wrong.amount: float(lease.amount_ns) / 1e6,
        }
        for _, lease in found.iloc[list(dict.fromkeys([*range(min(3, len(found))), worst]))].iterrows()
    ]
    most = milliseconds(float(found["amount_ns"].max()) / 1e6)
    text = wrong.text.format(count=f"{len(found)} of {leases} leases", most=most, ttl=ttl)
    return wrong.kind.found("lock", text, len(found), examples)
