"""Was there a permit of a semaphore that no client ever got, although clients waited for it?

How the lock counts does not matter. In the whole run, fewer clients were ever inside a key at once, within their
leases, than it has permits; and for most of the time in which clients waited, as many as ever were inside. A semaphore
that lets in as many as it should fills up under such a load. One that fills up seldom, because its clients are in each
other's way, rarely has its largest number inside.

Times do not count in which a client that was not inside may have had a permit: one that died, or whose call ended with
an error or was cancelled by its user. As many as ever must have been inside for `LEAST_MS`, during `LEAST_WAITS` waits.
This costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fencepost.text import count, listed, milliseconds, plural, printable
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.groups import Bools, Ints, rows_of, rows_of_sections, where
from harness.history.recorded import Recorded
from harness.history.stretches import Stretch, longest
from harness.history.waits import recorded_waits
from harness.verdict import Answer

LEAST_MS: Final = 2_000
LEAST_WAITS: Final = 20
LEAST_SHARE: Final = 0.5
_AT_ONCE_NS: Final = 50_000_000
"""A client that is let in sooner has not waited."""
_Span = tuple[str, int, int]
"""A client, and from when until when."""


class Figures(KeyFigures, frozen=True):
    """`most`: the largest number of clients inside a key at once. `full_ms`: for how long that many were inside while
    others waited, if a key never had as many clients inside as it has permits; else 0."""

    permits: int
    most: int
    full_ms: float

    def rows(self) -> Iterator[Row]:
        if self.full_ms:
            taken = f"no more than {count(self.most)} of {plural(self.permits, 'permit')} taken at once"
            yield Row("permits", f"{taken}, while clients waited for {milliseconds(self.full_ms)}", order=86)


@dataclass(frozen=True, slots=True)
class _Full(Stretch):
    """A time in which as many clients were inside as ever, and others waited."""

    key: str
    inside: tuple[str, ...]
    waiting: tuple[str, ...]


def check(run: Recorded) -> Answer:
    """No figures of a lock that was not used as a semaphore."""
    if not run.counts_permits:
        return Answer()
    every = [_Uses.of(run, key) for key in sorted(map(str, run.ops["key"].unique()))]
    found = [uses for uses in every if uses.is_never_full]
    if not found:
        return Answer(Figures(run.permits, max((uses.most for uses in every), default=0), 0.0))
    worst = max(found, key=lambda uses: uses.full_ns)
    figures = Figures(run.permits, worst.most, worst.full_ns / 1e6)
    stretches = list(worst.stretches())
    text = (
        f"no more than {plural(worst.most, 'client')} {'was' if worst.most == 1 else 'were'} ever inside "
        f"{printable(worst.key)} at once, although it has {plural(run.permits, 'permit')}; for "
        f"{milliseconds(worst.full_ns / 1e6)} in all, others waited meanwhile"
    )

    def example(full: _Full) -> dict[str, object]:
        most = {"most": worst.most}
        return {"key": full.key, **run.lasted(full), "inside": full.inside, "clients": full.waiting, **most}

    first_ms = run.at_ms(min(full.since_ns for full in stretches))
    return Answer(figures, (UNUSED.of(stretches, text, example, longest(stretches), at_ms=first_ms),))


@dataclass(frozen=True, slots=True)
class _Uses:
    """Of one key, from moment to moment. `at`: where something changes; the other lines say what is so from there on.
    `most`: the largest number of clients inside at once. `counted`: whether clients waited, and none that was not
    inside can have had a permit. `full`: whether as many as ever were inside then, too. `inside`: from when until when
    each client had a permit, and `waits`: waited, beyond its first moments."""

    key: str
    permits: int
    at: Ints
    most: int
    full: Bools
    counted: Bools
    inside: Sequence[_Span]
    waits: Sequence[_Span]

    @classmethod
    def of(cls, run: Recorded, key: str) -> _Uses:
        sections = rows_of(where(run.sections, key=key), "client", "start_ns", "end_ns", "deadline_max_ns")
        # A client that outlives its lease has no permit any more.
        inside = [(str(who), start, max(start, min(end, deadline))) for who, start, end, deadline in sections]
        own = (one for one in recorded_waits(run, _AT_ONCE_NS) if one.key == key)
        waits = [(one.client, one.since_ns + _AT_ONCE_NS, one.until_ns) for one in own]
        perhaps = list(_perhaps_taken(run, key))
        at = np.unique([edge for _, *span in (*inside, *waits, *perhaps) for edge in span])
        within, waiting, unknown = (_number(at, spans) for spans in (inside, waits, perhaps))
        most = int(within.max(initial=0))
        counted = (waiting > 0) & (unknown == 0)
        return cls(key, run.permits, at, most, counted & (within == most), counted, inside, waits)

    @property
    def full_ns(self) -> int:
        return self._length_ns(self.full)

    @property
    def is_never_full(self) -> bool:
        if not 0 < self.most < self.permits or self.full_ns < LEAST_MS * 1e6:
            return False
        waits = sum(bool(self.full[self._places(since, until)].any()) for _, since, until in self.waits)
        return waits >= LEAST_WAITS and self.full_ns >= LEAST_SHARE * self._length_ns(self.counted)

    def stretches(self) -> Iterator[_Full]:
        """When it was full without a break."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.full, [False]))))
        for first, after in edges.reshape(-1, 2).tolist():
            since, until = int(self.at[first]), int(self.at[after])
            inside, waiting = (
                tuple(dict.fromkeys(who for who, a, b in spans if a < until and b > since))
                for spans in (self.inside, self.waits)
            )
            yield _Full(since, until, self.key, inside, waiting)

    def _length_ns(self, which: Bools) -> int:
        return int(np.diff(self.at)[which[:-1]].sum())

    def _places(self, since: int, until: int) -> slice:
        return slice(*np.searchsorted(self.at, [since, until]).tolist())


def _number(at: Ints, spans: Iterable[_Span]) -> Ints:
    """How many of these are open from each of the moments on."""
    since, until = np.array([times for _, *times in spans], np.int64).reshape(-1, 2).T
    steps = np.zeros(len(at), np.int64)
    np.add.at(steps, np.searchsorted(at, since), 1)
    np.add.at(steps, np.searchsorted(at, until), -1)
    return np.cumsum(steps)


def _perhaps_taken(run: Recorded, key: str) -> Iterator[_Span]:
    """When a client that was not inside may have had a permit."""
    released = {section for section, _ in rows_of_sections(run.sections, run.calls("release", "ok"), "complete_ns")}
    sections = rows_of(run.sections, "client", "key", "end_ns", "deadline_max_ns")
    for section, (client, of, end_ns, deadline_ns) in enumerate(sections):
        if of == key and section not in released and deadline_ns > end_ns:
            yield str(client), end_ns, deadline_ns
    lease_ns = round(run.kept_ms * 1e6)
    for client, since_ns, until_ns in rows_of(run.calls("acquire", "info", key), "client", "invoke_ns", "complete_ns"):
        yield str(client), since_ns, until_ns + lease_ns
    yield from ((call.client, call.since_ns, call.gone_ns) for call in run.cancelled if call.key == key)
    yield from ((end.client, end.at_ns, end.at_ns + lease_ns) for end in run.ends if end.how in ("killed", "died"))


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    inside, waiting = ([printable(str(who)) for who in case.example[name]] for name in ("inside", "clients"))
    most = int(case.example["most"])
    return Told(
        f"From {case.at()} on, for {case.lasting()}, {listed(inside)} {'was' if len(inside) == 1 else 'were'} inside "
        f"{case.text('key')}, which has {plural(run.permits, 'permit')}, and {listed(waiting)} waited. In the whole "
        f"run, no more than {plural(most, 'client')} {'was' if most == 1 else 'were'} ever inside at once.",
        cause="permits unused",
    )


UNUSED: Final = FindingKind("permits-unused", "liveness", _told, noun="time(s) in which permits stayed unused")
