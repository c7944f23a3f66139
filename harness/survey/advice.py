"""Which lock to take, by what the runs show: of each language, on five servers and on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from harness.survey.promises import ENOUGH
from harness.survey.settle import Answer, Row, Settled
from harness.survey.subjects import is_old, released_of

_FIRST: Final = "exclusive"
_SECOND: Final = "validity"
_ADD: Final[Mapping[str, str]] = {
    "validity": "count the lease from when you asked for it, not from when you got it",
    "extension": "it extends no lease: leave before yours is over",
    "timeout": "put a time limit of your own around each acquire",
    "minority": "give your Redis client a socket timeout well below the TTL",
    "hung": "give your Redis client a socket timeout well below the TTL",
}
"""By promise: what a program does itself if the lock is not known to keep it, or does not make it."""

RULE: Final = (
    "By the runs on this page alone. The library is not known to be unmaintained, and never let two in: neither in the "
    f"{ENOUGH} runs or more that could have shown it, nor in a finding. One that is known to grant leases that are not "
    "true is not named. Of the others, one whose leases are known to be true comes first, then the one with the fewest "
    "promises broken, then the one with the most kept."
)
FENCE: Final = (
    "No lock of this kind stops a client that is paused until its lease is over. Where two at once do harm, the "
    "resource itself must refuse the older one: by a fencing token that increases with each grant."
)


_SPELT: Final = {"node": "Node.js", "php": "PHP"}


class Advice(NamedTuple):
    """`row`: the lock to take; None if there is none. `kept`: its promises that were; `lacks`: those broken or not
    known, or why there is no lock to take; `add`: what its user does to make up for that."""

    language: str
    nodes: int
    row: Row | None
    kept: str
    lacks: str
    add: str

    @property
    def language_name(self) -> str:
        return _SPELT.get(self.language, self.language.capitalize())


def advise(rows: Sequence[Row], asked_on: str) -> Iterator[Advice]:
    """Language by language, five servers first. `asked_on`: the date of the runs, as `2026-11-24`."""
    played = [row for row in rows if row.subject.role == "library" and row.runs]
    for language in dict.fromkeys(row.library.language for row in played):
        for nodes in sorted({row.subject.nodes for row in played if row.library.language == language}, reverse=True):
            own = [row for row in played if (row.library.language, row.subject.nodes) == (language, nodes)]
            best = max((row for row in own if not _why_not(row, asked_on)), key=_merit, default=None)
            if best is None:
                why_not = "; ".join(f"{row.subject.name}: {_why_not(row, asked_on)}" for row in own)
                yield Advice(language, nodes, None, "", why_not, "")
            else:
                yield Advice(language, nodes, best, _titles(_of(best, "kept")), _lacks(best), _add(best))


def _why_not(row: Row, asked_on: str) -> str:
    """Why not to take this lock; empty if nothing speaks against it."""
    if is_old(released_of(row.library), asked_on):
        return "unmaintained"
    for settled in row.settled:
        name, answer = settled.promise.name, settled.answer
        if answer == "broken" and name in (_FIRST, _SECOND):
            return f"{settled.promise.title} is broken"
        if answer != "kept" and name == _FIRST:
            return f"{settled.promise.title} is not known"
    return ""


def _merit(row: Row) -> tuple[bool, int, int]:
    """A lease that is true, then the fewest promises broken, then the most kept."""
    is_true = any(each.promise.name == _SECOND and each.answer == "kept" for each in row.settled)
    return is_true, -len(_of(row, "broken")), len(_of(row, "kept"))


def _of(row: Row, answer: Answer) -> list[Settled]:
    return [each for each in row.settled if each.answer == answer]


def _lacks(row: Row) -> str:
    told = {"broken": _titles(_of(row, "broken")), "not known": _titles(_of(row, "unknown"))}
    return "; ".join(f"{how}: {titles}" for how, titles in told.items() if titles)


def _add(row: Row) -> str:
    """Where something speaks against a promise, or the lock does not make it. That there were too few runs does not."""
    unknown = [each for each in _of(row, "unknown") if each.rate.events or each.rate.trials >= ENOUGH]
    lacking = {each.promise.name for each in (*_of(row, "broken"), *unknown, *_of(row, "inapplicable"))}
    if row.subject.renews:
        lacking -= {"extension"}
    if row.subject.nodes == 1:
        lacking -= {"minority", "hung"}
    return "; ".join(dict.fromkeys(says for name, says in _ADD.items() if name in lacking))


def _titles(settled: Sequence[Settled]) -> str:
    return ", ".join(each.promise.title for each in settled)
