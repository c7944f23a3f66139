"""Was there a permit of a semaphore that no client ever got, although clients waited for it?

Not a word is said of how the lock counts. In the whole run there were never as many clients inside a key at once as it
has permits; and while clients waited, the largest number that was ever inside was inside for most of the time. A
semaphore that lets in as many as it should fills up under such a load. One that fills up seldom, because its clients
are in each other's way, is not full of fewer clients for long.

Times do not count in which a permit may have been taken without a client that was inside: by one that died, by a call
that ended with an error or that its user cancelled. There must be `LEAST_MS` of them and `LEAST_WAITS` waits in all.
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
from harness.history.groups import Bools, Ints, rows_of, rows_of_sections
from harness.history.recorded import Recorded
from harness.history.stretches import Stretch, longest
from harness.history.waits import recorded_waits
from harness.verdict import Answer

LEAST_MS: Final = 2_000
LEAST_WAITS: Final = 20
LEAST_SHARE: Final = 0.5
_AT_ONCE_NS: Final = 50_000_000
"""A client that is let in sooner has not waited."""


class Figures(KeyFigures, frozen=True):
    """`most`: how many clients were inside a key at once, at most. `full_ms`: for how long so many were inside while
    others waited, if a key was never given out to as many clients as it has permits; else 0."""

    permits: int
    most: int
    full_ms: float

    def rows(self) -> Iterator[Row]:
        if self.full_ms:
            waited = f"no more than {count(self.most)} of {plural(self.permits, 'permit')} taken at once"
            yield Row("permits", f"{waited}, while clients waited for {milliseconds(self.full_ms)}", order=86)


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
    `most`: clients inside at once, at most. `full`: whether so many were, while others waited, and nobody else can have
    taken a permit. `counted`: whether that could have been."""

    run: Recorded
    key: str
    at: Ints
    most: int
    full: Bools
    counted: Bools
    waits: Sequence[tuple[str, int, int]]

    @classmethod
    def of(cls, run: Recorded, key: str) -> _Uses:
        own = run.sections[(run.sections["key"] == key).to_numpy(np.bool_)]
        spans = rows_of(own, "start_ns", "end_ns", "deadline_max_ns")
        # Who outlives its lease has no permit any more.
        inside = [(start, max(start, min(end, deadline))) for start, end, deadline in spans]
        waits = recorded_waits(run, _AT_ONCE_NS)
        waits = waits[(waits["key"] == key).to_numpy(np.bool_)]
        waiting = [(str(who), since + _AT_ONCE_NS, until) for who, since, until in rows_of(waits, *_WAIT)]
        perhaps = list(_perhaps_taken(run, key))
        at = np.unique([edge for _, *span in waiting for edge in span] + [e for span in inside + perhaps for e in span])
        within, others, unknown = (
            _number(at, spans) for spans in (inside, [(since, until) for _, since, until in waiting], perhaps)
        )
        most = int(within.max(initial=0))
        counted = (others > 0) & (unknown == 0)
        return cls(run, key, at, most, counted & (within == most), counted, waiting)

    @property
    def full_ns(self) -> int:
        return self._length_ns(self.full)

    @property
    def is_never_full(self) -> bool:
        if not 0 < self.most < self.run.permits or self.full_ns < LEAST_MS * 1e6:
            return False
        waits = sum(bool(self.full[self._places(since, until)].any()) for _, since, until in self.waits)
        return waits >= LEAST_WAITS and self.full_ns >= LEAST_SHARE * self._length_ns(self.counted)

    def stretches(self) -> Iterator[_Full]:
        """When it was full without a break."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.full, [False]))))
        spans = list(rows_of(self.run.sections, "client", "key", "start_ns", "end_ns"))
        for first, after in edges.reshape(-1, 2).tolist():
            since, until = int(self.at[first]), int(self.at[after])
            inside = (str(who) for who, key, a, b in spans if key == self.key and a < until and b > since)
            waiting = (who for who, a, b in self.waits if a < until and b > since)
            yield _Full(since, until, self.key, tuple(dict.fromkeys(inside)), tuple(dict.fromkeys(waiting)))

    def _length_ns(self, which: Bools) -> int:
        return int(np.diff(self.at)[which[:-1]].sum())

    def _places(self, since: int, until: int) -> slice:
        return slice(*np.searchsorted(self.at, [since, until]).tolist())


def _number(at: Ints, spans: Iterable[tuple[int, int]]) -> Ints:
    """How many of these are open from each of the moments on."""
    since, until = np.array([*spans], np.int64).reshape(-1, 2).T
    steps = np.zeros(len(at), np.int64)
    np.add.at(steps, np.searchsorted(at, since), 1)
    np.add.at(steps, np.searchsorted(at, until), -1)
    return np.cumsum(steps)


def _perhaps_taken(run: Recorded, key: str) -> Iterator[tuple[int, int]]:
    """When a permit may have been taken, though no client was inside with it."""
    released = {section for section, _ in rows_of_sections(run.sections, run.calls("release", "ok"), "complete_ns")}
    spans = rows_of(run.sections, "key", "end_ns", "deadline_max_ns")
    for section, (of, end_ns, deadline_ns) in enumerate(spans):
        if of == key and section not in released and deadline_ns > end_ns:
            yield end_ns, deadline_ns
    lease_ns = round(run.kept_ms * 1e6)
    for since_ns, until_ns in rows_of(run.calls("acquire", "info", key), "invoke_ns", "complete_ns"):
        yield since_ns, until_ns + lease_ns
    yield from ((call.since_ns, call.gone_ns) for call in run.cancelled if call.key == key)
    yield from ((end.at_ns, end.at_ns + lease_ns) for end in run.ends if end.how in ("killed", "died"))


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    inside, waiting = ([printable(str(who)) for who in case.example[name]] for name in ("inside", "clients"))
    most = int(case.example["most"])
    return Told(
        f"From {case.at()} on, for {case.lasting()}, {listed(inside)} {'was' if len(inside) == 1 else 'were'} inside "
        f"{case.text('key')}, which has {plural(run.permits, 'permit')}, and {listed(waiting)} waited. In the whole "
        f"run, no more than {plural(most, 'client')} {'was' if most == 1 else 'were'} ever inside at once.",
        cause="permits unused",
    )


_WAIT: Final = ("client", "since", "until")
UNUSED: Final = FindingKind("permits-unused", "liveness", _told, noun="time(s) in which permits stayed unused")
