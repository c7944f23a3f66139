"""Was a client told that its lease lasts longer than its keys live?

What a client was told is the earliest end of its lease: no reading of the record makes it shorter. What the nodes were
told is seen by the witness: it reads each key's time to live as soon as it is set. If so many keys expire before the
lease ends that no majority is left, the lock promised what it had not asked for, whether or not anybody was inside for
that long. That finds locks that miscount when they asked, that ask for less than they were told to, or that go on
counting from a renewal that did not take place.

A node that was out of sight for any part of the section, and a time to live that could not be read, may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.text import count, milliseconds, out_of, plural
from harness.figures import KeyFigures, Row
from harness.history.backing import Backing
from harness.history.recorded import Recorded, named
from harness.history.sections import SLEW
from harness.verdict import Answer, Finding, shown

MARGIN_NS: Final = 5_000_000
"""Libraries and servers count in milliseconds; this much is not held against the lock."""


class Figures(KeyFigures, frozen=True):
    """`sections`: those whose keys' time to live is known on enough nodes. `short`: those whose lease ends later;
    `longest_ms`: by how much at most, 0 without any."""

    sections: int
    short: int
    longest_ms: float

    def rows(self) -> Iterator[Row]:
        if self.short:
            sections = out_of(self.short, self.sections, "section", "sections")
            yield Row("lifetime", f"{sections} promised for up to {milliseconds(self.longest_ms)} too long", order=82)


class _Short(NamedTuple):
    """`section`: its place. `lease_ns`, `keys_ns`: when the lease and its keys end."""

    section: int
    lease_ns: int
    keys_ns: int

    @property
    def excess_ns(self) -> int:
        return self.lease_ns - self.keys_ns


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    if run.backing is None:
        return Answer()
    known = list(_known(run, run.backing))
    margin_ns = MARGIN_NS + round(run.lease_ms * 1e6 * SLEW)
    short = [one for one in known if one.excess_ns > margin_ns]
    figures = Figures(len(known), len(short), max((one.excess_ns for one in short), default=0) / 1e6)
    if not short:
        return Answer(figures)
    longest = max(short, key=lambda one: one.excess_ns)
    text = (
        f"in {count(len(short))} of {plural(len(known), 'section')} a client was told that it holds the lock for up to "
        f"{milliseconds(longest.excess_ns / 1e6)} longer than the keys on a majority of the nodes live"
    )
    examples = tuple(_example(run, one) for one in shown(short, longest))
    return Answer(figures, (Finding("lease-outlasts-keys", "lock", text, ("lease",), len(short), examples),))


def _known(run: Recorded, backing: Backing) -> Iterator[_Short]:
    """The sections whose leases can be compared with their keys, in order."""
    start, end, deadline = (run.sections[name].tolist() for name in ("start_ns", "end_ns", "deadline_min_ns"))
    for section in sorted(backing.owners.values):
        # The earliest reading may end the lease before the attempt that granted it had set its keys.
        keys_ns = backing.lives_until(section, max(start[section], min(end[section], deadline[section])))
        if keys_ns is not None:
            yield _Short(section, deadline[section], keys_ns)


def _example(run: Recorded, short: _Short) -> dict[str, object]:
    section = run.sections.iloc[short.section]
    return {
        **named(section),
        "at_ms": run.at_ms(section.start_ns),
        "lease_until_ms": run.at_ms(short.lease_ns),
        "keys_until_ms": run.at_ms(short.keys_ns),
    }
