"""Was an extension granted although too few nodes still had the key?

A majority of the nodes must prolong the key. Each of these had the client's value then, so at some time between the
request and the answer. If certainly fewer nodes than a majority had it, the lock counted something else. Why the others
no longer had it does not matter here: an extension asks again, so a node that forgot is no excuse.

The same holds for a client that acquires once more when its lease is over: then the nodes must be asked anew. While
the lease lasts, a lock may answer from memory.

Nothing is said of locks that renew by themselves: they may answer without asking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from fencepost.text import count, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.groups import grouped, rows_of_sections, where
from harness.history.leases import derive_leases
from harness.history.quorum_support import Backing
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

Step = Literal["extend", "reenter"]
_WORDS: Final[Mapping[Step, str]] = {"extend": "extension", "reenter": "nested acquire"}


class Figures(KeyFigures, frozen=True):
    """`extensions`: granted ones, of sections whose values are known. `unheld`: of them, how many too few nodes can
    have granted. `nested`, `unheld_nested`: the same of acquires by a client whose lease was over."""

    extensions: int
    unheld: int
    nested: int = 0
    unheld_nested: int = 0

    def rows(self) -> Iterator[Row]:
        counts: dict[Step, tuple[int, int]] = {
            "extend": (self.unheld, self.extensions),
            "reenter": (self.unheld_nested, self.nested),
        }
        for f, (unheld, granted) in counts.items():
            if unheld:
                text = f"{count(unheld)} of {plural(granted, _WORDS[f])} granted without a majority"
                yield Row("unheld", text, order=86)


class _Granted(NamedTuple):
    """An extension or a nested acquire of a section, by its place."""

    section: int
    asked_ns: int
    answered_ns: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the lock renews by itself."""
    backing = run.backing
    if backing is None or run.config.renewal_ms is not None:
        return Answer()
    granted: dict[Step, list[_Granted]] = {
        "extend": list(_granted(run, backing, "extend")),
        "reenter": list(_anew(run, backing)),
    }
    unheld = {f: [one for one in some if not backing.may_have_been_held(*one)] for f, some in granted.items()}
    figures = Figures(
        extensions=len(granted["extend"]),
        unheld=len(unheld["extend"]),
        nested=len(granted["reenter"]),
        unheld_nested=len(unheld["reenter"]),
    )
    findings = (_finding(run, backing, f, len(granted[f]), some) for f, some in unheld.items() if some)
    return Answer(figures, tuple(findings))


def _granted(run: Recorded, backing: Backing, f: Step) -> Iterator[_Granted]:
    ops = run.calls(f, "ok")
    granted = map(_Granted._make, rows_of_sections(run.sections, ops, "invoke_ns", "complete_ns"))
    return (one for one in granted if one.section in backing.owners.values)


def _anew(run: Recorded, backing: Backing) -> Iterator[_Granted]:
    """The nested acquires that were asked for when every lease was over that their section had been told of, or had
    asked for and never been answered."""
    nested = list(_granted(run, backing, "reenter"))
    if not nested:
        return
    leases = derive_leases(run.ops, run.faults, ("acquire", "extend", "reenter"))
    told = grouped(
        (section, (told_ns, over_ns))
        for section, told_ns, over_ns in rows_of_sections(run.sections, leases, "complete_ns", "deadline_max_ns")
    )
    unanswered = where(run.ops, f=("extend", "reenter"), outcome="info")
    asked: Mapping[int, list[int]] = grouped(rows_of_sections(run.sections, unanswered, "invoke_ns"))
    for one in nested:
        is_over = all(over_ns < one.asked_ns for told_ns, over_ns in told[one.section] if told_ns <= one.asked_ns)
        if is_over and not any(asked_ns <= one.asked_ns for asked_ns in asked[one.section]):
            yield one


def _finding(run: Recorded, backing: Backing, f: Step, granted: int, unheld: list[_Granted]) -> Finding:
    kind = EXTENSION if f == "extend" else NESTED
    text = (
        f"{count(len(unheld))} of {plural(granted, _WORDS[f])} {'was' if len(unheld) == 1 else 'were'} granted, "
        "but no majority of the nodes can have held the client's value at any time while the lock asked them"
    )

    def example(one: _Granted) -> dict[str, object]:
        section = run.sections.iloc[one.section]
        return {
            "client": str(section.client),
            "section": int(section.section),
            "key": str(section.key),
            "at_ms": run.at_ms(one.answered_ns),
            "held_by": tuple(backing.possible_holders(*one)),
            **({"is_unasked": True} if f == "reenter" and _is_unasked(run, one) else {}),
        }

    return kind.of(sorted(unheld, key=lambda one: one.answered_ns), text, example)


def _is_unasked(run: Recorded, one: _Granted) -> bool:
    """Whether its client sent no request to any node meanwhile."""
    if (ledger := run.whole_ledger) is None:
        return False
    client, within = str(run.sections["client"].iloc[one.section]), (one.asked_ns, one.answered_ns)
    return not any(ledger.sent.between(client, node, *within) for node in run.nodes)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, held_by = case.text("client"), case.listed("held_by")
    nodes = f"only {held_by}" if held_by else "no node"
    if case.finding.kind == NESTED.name:
        unasked = "is_unasked" in case.example
        return Told(
            f"{client} acquired the lock once more after its lease had expired, and this succeeded at {case.at()}"
            f"{', without a request to the nodes' if unasked else ''}, although {nodes} can have had its value.",
            cause="granted unasked" if unasked else "too few nodes",
        )
    return Told(
        f"An extension of {client} succeeded at {case.at()}, although {nodes} can still have had its value. So no "
        "majority can have agreed to it."
    )


EXTENSION: Final = FindingKind(
    "extension-without-majority",
    "lease",
    _told,
    stands_for="too few nodes",
    noun="extension(s) granted without a majority",
    surveyed="extension",
)
NESTED: Final = FindingKind(
    "nested-acquire-without-majority",
    "lease",
    _told,
    noun="nested acquire(s) granted without a majority",
    surveyed="validity",
)
