"""Did an acquire take a second place of a semaphore, so that the first one was no client's?

A semaphore keeps the places of its clients as entries: in a list, a set, a sorted set or a hash. An acquire took two,
and left one behind, if all of this was so on a node:

- in one granted call two requests each put an entry into the same key, and the answer to the first had reached the
  client before the second was sent: it knew that it had a place;
- the release of that section, which reported success, took one of them out, and the other one was still there
  `SLACK_MS` later;
- meanwhile an acquire of another client was under way for the same key.

An acquire whose first answer did not arrive may ask again: what it took then ends with its time. `LEAST` such acquires
are found. This costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fencepost.text import milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import client_of, how_sent
from harness.figures import KeyFigures, Row
from harness.history.groups import grouped, rows_of
from harness.history.ledger import Ledger
from harness.history.places_taken import Place, places_taken
from harness.history.recorded import Recorded
from harness.history.waits import SLACK_NS
from harness.verdict import Answer

LEAST: Final = 3


class Figures(KeyFigures, frozen=True):
    """`acquires`: that took a second place, and whose release gave back one."""

    acquires: int

    def rows(self) -> Iterator[Row]:
        if self.acquires:
            yield Row("twice", f"{plural(self.acquires, 'acquire')} took two places, and gave back one", order=86)


class _Double(NamedTuple):
    """`left`: the place that stayed. `taken`: the one that was given back. `released_ns`: when that was over.
    `waiting`: the acquires of other clients that were under way while it stayed."""

    key: str
    left: Place
    taken: Place
    released_ns: int
    waiting: int


def check(run: Recorded) -> Answer:
    """No figures where what the nodes held is not on record, and of a lock that was not used as a semaphore."""
    ledger = run.whole_ledger
    if ledger is None or not run.counts_permits:
        return Answer()
    every = (one for key in map(str, run.ops["key"].unique()) for one in _doubles(run, ledger, key))
    by_section = {one.left.owner: one for one in every}
    found = sorted(by_section.values(), key=lambda one: one.left.since_ns)
    if len(found) < LEAST:
        return Answer(Figures(0))
    worst = max(found, key=lambda one: one.left.until_ns - one.released_ns)
    stayed = milliseconds((worst.left.until_ns - worst.released_ns) / 1e6)
    text = (
        f"{plural(len(found), 'acquire')} took two places, although their clients knew of the first one; the release "
        f"gave back one, and the other one stayed for up to {stayed} more, while others waited"
    )

    def example(one: _Double) -> dict[str, object]:
        return {
            "client": client_of(one.left.put),
            "key": one.key,
            "where": one.left.key,
            "at_ms": run.at_ms(one.left.since_ns),
            "first": how_sent(run, one.left.put),
            "second": how_sent(run, one.taken.put),
            "released_ms": run.at_ms(one.released_ns),
            "until_ms": run.at_ms(one.left.until_ns),
            "waiting": one.waiting,
        }

    return Answer(Figures(len(found)), (TWICE.of(found, text, example, worst),))


def _doubles(run: Recorded, ledger: Ledger, key: str) -> Iterator[_Double]:
    released = rows_of(run.calls("release", "ok", key), "client", "life", "section", "complete_ns")
    done_ns: dict[tuple[object, ...], int] = {tuple(owner): at_ns for *owner, at_ns in released}
    tries = list(rows_of(run.calls("acquire", key=key), "client", "invoke_ns", "complete_ns"))
    of_acquires = (
        place
        for place in places_taken(run, ledger, key)
        if place.is_kept and place.put["f"] == "acquire" and place.put["outcome"] == "ok" and place.put["request"] >= 0
    )
    for (_, _, owner), own in grouped(((one.node, one.key, one.owner), one) for one in of_acquires).items():
        if (by_ns := done_ns.get(owner)) is None:
            continue
        stayed = [one for one in own if one.until_ns > by_ns + SLACK_NS]
        given = [one for one in own if one.until_ns <= by_ns + SLACK_NS]
        for left in stayed[:1]:
            if (taken := _other(left, given)) is None:
                continue
            others = sum(
                who != owner[0] and invoked < left.until_ns and complete > by_ns for who, invoked, complete in tries
            )
            if others:
                yield _Double(key, left, taken, by_ns, others)


def _other(left: Place, given: Sequence[Place]) -> Place | None:
    """The place that was taken by another request, of which either was sent when the other was answered."""
    for one in given:
        first, second = sorted((left.put, one.put), key=lambda put: int(put["from_client_ns"]))
        if 0 <= first["to_client_ns"] < second["from_client_ns"]:
            return one
    return None


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, where, first, second = case.texts("client", "where", "first", "second")
    return Told(
        f"One acquire of {client} took two places in {where}: {first}; and {second}. The release was over at "
        f"{case.at('released_ms')} and gave back one; the other one was there until {case.at('until_ms')}, while "
        f"{case.counted('waiting', 'acquire')} of other clients {'was' if case.example['waiting'] == 1 else 'were'} "
        "under way.",
        cause="counted twice",
    )


TWICE: Final = FindingKind(
    "place-taken-twice",
    "liveness",
    _told,
    stands_for="counted twice",
    noun="acquire(s) that took two places",
    surveyed="free",
)
