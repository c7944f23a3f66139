"""Does the lock become available again, soon, and for all clients?

A time without a grant counts against the lock only while some working client certainly could reach a majority
(`harness.history.fault_windows.majority_windows`). What is found here breaks only `liveness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from fencepost.text import count, milliseconds, number, plural
from harness.checkers.starvation import CROWD
from harness.explain.causes import KEEP_CLIENTS_OUT
from harness.explain.kept_permits import kept_in_words, kept_permits
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import client_of, how_sent
from harness.figures import CheckerFigures, Row, Tile
from harness.history.fault_windows import between, last_ends, majority_windows
from harness.history.groups import Ints, columns_of
from harness.history.ledger import Change
from harness.history.left_behind import left_entry, left_mutex
from harness.history.permits_out import permits_out
from harness.history.recorded import Recorded
from harness.verdict import Answer, Blame, Finding

_TTLS_TO_RECOVER: Final = 2
"""A key that was set as late as the heal is gone one TTL later; without a grant for this long, something is stuck."""


class Spread(msgspec.Struct, frozen=True):
    """How many values, and their quantiles; None without values."""

    count: int
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None

    def in_words(self, shown: Callable[[float | None], str]) -> str:
        """`p50 1.2 s, p90 3.4 s, p99 5 s, max 6 s`; `shown`: a value as text."""
        named = {"p50": self.p50, "p90": self.p90, "p99": self.p99, "max": self.max}
        return ", ".join(f"{name} {shown(value)}" for name, value in named.items())


class Figures(CheckerFigures, frozen=True):
    """`wait_ms`: from the first try to the grant. `longest_gap_ms`, `longest_gap_at_ms`: the longest time without a
    grant while a majority was in reach, and when it began; None if none ever was. `longest_ungranted_ms`,
    `longest_ungranted_at_ms`: the same overall. `recovery_first_ms`,
    `recovery_all_ms`: from the heal to the first grant, and until every client that still worked had one; None if that
    never happened. `never_acquired`: clients. `jain`: fairness of sections over clients, 1 if all had the same number;
    None without sections. `late_grants`: the lease had surely expired before the client learned of it."""

    wait_ms: Spread
    longest_gap_ms: float | None
    longest_gap_at_ms: float | None
    recovery_first_ms: float | None
    recovery_all_ms: float | None
    never_acquired: tuple[str, ...]
    jain: float | None
    acquires_longer_than_ttl: int
    late_grants: int
    longest_ungranted_ms: float | None = None
    longest_ungranted_at_ms: float | None = None

    def rows(self) -> Iterator[Row]:
        waiting = self.wait_ms.in_words(milliseconds)
        yield Row("waiting", f"{waiting}; fairness (Jain) {number(self.jain, 2)}", order=60)
        if gap := self._gap():
            yield Row("gap", f"longest time without a grant: {gap}", order=61)
        if self.late_grants or self.acquires_longer_than_ttl:
            expired = f"{plural(self.late_grants, 'lease')} already expired on arrival"
            slow = f"{plural(self.acquires_longer_than_ttl, 'acquire')} slower than the TTL"
            yield Row("late", f"{expired}; {slow}", order=62)
        if self.recovery_first_ms is not None:
            text = f"first grant {milliseconds(self.recovery_first_ms)} after the heal"
            everyone = self.recovery_all_ms
            others = "not every client had one" if everyone is None else f"all clients within {milliseconds(everyone)}"
            yield Row("recovery", f"{text}, {others}", order=63)
        if self.never_acquired:
            yield Row("starved", f"never acquired the lock: {', '.join(self.never_acquired)}", order=64)

    def tiles(self) -> Iterator[Tile]:
        wait = self.wait_ms
        note = f"p99 {milliseconds(wait.p99)}, longest {milliseconds(wait.max)}"
        yield Tile("Waiting time, p50", milliseconds(wait.p50), note, order=50)
        if self.longest_gap_ms is not None:
            note = f"without a grant although a majority was in reach{_from(self.longest_gap_at_ms)}"
            if self.longest_ungranted_ms is not None:
                note += f"; {milliseconds(self.longest_ungranted_ms)} overall"
            yield Tile("Longest gap", milliseconds(self.longest_gap_ms), note, order=60)
        if self.late_grants:
            note = "the lease had expired before the client learned of it"
            yield Tile("Late entries", count(self.late_grants), note, "warn", order=80)
        if self.recovery_all_ms is not None:
            note = f"the first after {milliseconds(self.recovery_first_ms)}"
            yield Tile("Recovery, all clients", milliseconds(self.recovery_all_ms), note, order=80)

    def _gap(self) -> str:
        """`1.2 s with a majority in reach (from 4.2 s on), 3.4 s overall (from 3.1 s on)`."""
        parts = []
        if self.longest_gap_ms is not None:
            parts.append(f"{milliseconds(self.longest_gap_ms)} with a majority in reach{_from(self.longest_gap_at_ms)}")
        if self.longest_ungranted_ms is not None:
            parts.append(f"{milliseconds(self.longest_ungranted_ms)} overall{_from(self.longest_ungranted_at_ms)}")
        return ", ".join(parts)


def _from(at_ms: float | None) -> str:
    return "" if at_ms is None else f" (from {number(at_ms / 1000)} s on)"


def check(run: Recorded) -> Answer:
    start, asked = columns_of(run.sections, "start_ns", "asked_ns")
    by_client = run.sections["client"].value_counts()
    by_client = by_client[by_client > 0]
    clients = run.config.user_names
    shares = np.array([int(by_client.get(client, 0)) for client in clients], np.float64)
    config, begin, end = run.config, run.timeline.start_ns, last_ns(run)
    reachable = majority_windows(config.user_names, run.nodes, run.faults, run.ends, begin, end, group=run.group)
    gap_ns, gap_at_ns = _longest_gap(start, reachable)
    ungranted_ns, ungranted_at_ns = _longest_gap(start, [(begin, end)])
    first_ms, all_ms = _recovery(run)
    figures = Figures(
        wait_ms=spread((start - asked) / 1e6),
        longest_gap_ms=_ms(gap_ns),
        longest_gap_at_ms=None if gap_at_ns is None else _ms(gap_at_ns - begin),
        recovery_first_ms=first_ms,
        recovery_all_ms=all_ms,
        never_acquired=tuple(client for client in clients if client not in by_client.index),
        jain=float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if shares.any() else None,
        acquires_longer_than_ttl=_longer_than_ttl(run),
        late_grants=int((run.sections["deadline_max_ns"].to_numpy(np.int64) < start).sum()),
        longest_ungranted_ms=_ms(ungranted_ns),
        longest_ungranted_at_ms=None if ungranted_at_ns is None else _ms(ungranted_at_ns - begin),
    )
    return Answer(figures, _no_recovery(run, first_ms))


def _longer_than_ttl(run: Recorded) -> int:
    ops = run.ops
    took_ns = ops["complete_ns"] - ops["invoke_ns"]
    return int(((ops["f"] == "acquire") & (took_ns > run.config.ttl_ms * 1_000_000)).sum())


def spread(values: npt.NDArray[np.float64]) -> Spread:
    """The values' number and quantiles."""
    if not len(values):
        return Spread(0, None, None, None, None)
    p50, p90, p99 = np.percentile(values, [50, 90, 99]).tolist()
    return Spread(len(values), p50, p90, p99, float(values.max()))


def last_ns(run: Recorded) -> int:
    """When the load ended; for a run that was cut short, the last thing that was recorded."""
    if run.timeline.stop_ns is not None:
        return run.timeline.stop_ns
    return int(run.ops["complete_ns"].max()) if len(run.ops) else run.timeline.start_ns


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6


def _longest_gap(start: Ints, times: Sequence[tuple[int, int]]) -> tuple[int | None, int | None]:
    """The longest time without a grant within one of these times, and when it began."""
    longest: tuple[int | None, int | None] = (None, None)
    for since, until in times:
        inside = start[np.searchsorted(start, since, "left") : np.searchsorted(start, until, "right")]
        moments = np.concatenate([[since], inside, [until]])
        gaps = np.diff(moments)
        at = int(np.argmax(gaps))
        if longest[0] is None or gaps[at] > longest[0]:
            longest = int(gaps[at]), int(moments[at])
    return longest


def _recovery(run: Recorded) -> tuple[float | None, float | None]:
    healed_ns = run.timeline.healed_ns
    if healed_ns is None:
        return None, None
    after = run.sections[run.sections["start_ns"] >= healed_ns]
    if not len(after):
        return None, None
    firsts = after.groupby(after["client"].astype(str))["start_ns"].min()
    gone = {client for client, at_ns in last_ends(run.ends).items() if at_ns < healed_ns}
    gone -= set(run.ops.loc[run.ops["complete_ns"] >= healed_ns, "client"].astype(str))
    working = [client for client in run.config.user_names if client not in gone]
    everyone = all(client in firsts.index for client in working)
    first_ms = float(firsts.min() - healed_ns) / 1e6
    return first_ms, float(firsts.reindex(working).max() - healed_ns) / 1e6 if everyone and working else None


def _no_recovery(run: Recorded, first_ms: float | None) -> tuple[Finding, ...]:
    healed_ns, stop_ns = run.timeline.healed_ns, run.timeline.stop_ns
    if first_ms is not None or healed_ns is None or stop_ns is None:
        return ()
    # A client that acquired before the heal may rightfully keep the lock for longer by extending its lease.
    held = np.minimum(*columns_of(run.sections, "end_ns", "deadline_max_ns"))
    free_ns = max(healed_ns, int(held.max(initial=healed_ns)))
    # Nor may keys have expired that a clock kept for longer.
    free_ns = max([free_ns, *(until for _, until in run.wrong_clocks.times)])
    names = run.config.user_names, run.nodes
    reachable = majority_windows(*names, run.faults, run.ends, free_ns, stop_ns, group=run.group)
    left = [(call.since_ns, call.gone_ns) for call in run.cancelled]
    free = [time for since, until in reachable for time in between(left, since, until)]
    given_ms = max((until - since for since, until in free), default=0) / 1e6
    if given_ms < _TTLS_TO_RECOVER * run.kept_ms or not _any_client_tried(run, free_ns):
        return ()
    text = (
        f"no client acquired the lock within {milliseconds(given_ms)} after everything was healed"
        f"{' and its last holder was out' if free_ns > healed_ns else ''} (TTL {run.kept_ms:.0f} ms)"
    )
    blame: Blame = "undecided" if run.had_no_access or run.config.rivals > CROWD else "lock"
    return (NO_RECOVERY.found(blame, text, 1, _examples(run, free_ns), run.at_ms(free_ns)),)


def _examples(run: Recorded, free_ns: int) -> tuple[dict[str, object], ...]:
    """What calls had left, if that is why."""
    if run.timeline.stop_ns is not None and (out := permits_out(run, free_ns, run.timeline.stop_ns)):
        return (kept_permits(run, out),)
    if (entry := left_entry(run, free_ns)) is not None:
        return (_left(run, entry.put_by) | {"entry": entry.entry, "asked": entry.asked},)
    if (left := left_mutex(run, free_ns)) is None:
        return ()
    return (_left(run, left.put_by) | {"times": left.times, "asked": left.asked},)


def _left(run: Recorded, change: Change) -> dict[str, object]:
    """Which request set what was left."""
    return {
        "node": str(change["node"]),
        "key": str(change["key"]),
        "at_ms": run.at_ms(change["at_ns"]),
        "client": client_of(change),
        "sent": how_sent(run, change),
    }


def _any_client_tried(run: Recorded, since_ns: int) -> bool:
    """Whether a client was trying at that time or later. Clients may rest between their sections."""
    tries = run.ops.loc[run.ops["f"] == "acquire", "complete_ns"]
    return bool((tries >= since_ns).any()) or any(
        end.under_way == "acquiring" and end.at_ns >= since_ns for end in run.ends
    )


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    if "kept" in case.example:
        return Told(f"Since then {kept_in_words(case.example)}", cause="never given back")
    client, key, node, sent = case.texts("client", "key", "node", "sent")
    if "entry" in case.example:
        return Told(
            f"{client} had put {case.text('entry')} into {key} on {node}: {sent}. It has no time to live, and it was "
            "still there when that acquire, or its section, was over. Since then "
            f"{case.counted('asked', 'request')} of other clients named it, or were answered with it.",
            cause="no expiry",
        )
    return Told(
        f"{client} had set {key} on {node}, which calls of the lock had set and deleted again "
        f"{case.counted('times', 'time')}: {sent}. That call ended without deleting it, it has no time to live, and no "
        f"request deleted it any more. Since then {case.counted('asked', 'request')} of other clients named it.",
        cause="left mutex",
    )


NO_RECOVERY: Final = FindingKind(
    "no-recovery",
    "liveness",
    _told,
    comes_of=("stuck keys", *KEEP_CLIENTS_OUT),
    noun="outage(s) that outlasted the faults",
    surveyed="free",
)
