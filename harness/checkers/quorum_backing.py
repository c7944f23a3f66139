"""Was every section backed by a majority of the nodes?

A lock that reports a validity guarantees that a majority of the nodes holds the client's value until then. The witness
sees whether that is true. Only what is certain is counted. A node counts as holding the value unless it certainly does
not: what it held is known, or it did nothing since before the section was asked for. And the client counts as relying
on the lock only within its *certain window*, from the grant to the release or to the earliest end of its validity.

Nothing can be said about a lock that does not show what it sets on the nodes. A lock's nodes are those on which the key
was ever set; a lock that uses one of five has a majority of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from fencepost.text import milliseconds, of_sections, plural, printable
from harness.explain.causes import of_loss
from harness.explain.examples import Side
from harness.explain.expiries import lived_ms, over_at_once
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.node_replies import few_had_granted
from harness.explain.renewals import renewals_ended
from harness.explain.requests import may_be_of, who_did
from harness.figures import KEYS_ON_NODES, CheckerFigures, Part, Row
from harness.history.groups import where, which
from harness.history.quorum_support import LOSSES, Backing, Loss, WeakStretch, in_words, losses_by_node
from harness.history.recorded import Recorded, named
from harness.verdict import Answer, Blame, Finding, worst_first

_ROUNDED_NS: Final = 1_000


class Figures(CheckerFigures, frozen=True):
    """`sections`: how many could be checked, because it is known what was set for them, and what enough nodes
    held from the request on; 0 where it is not known whose the keys were, and then the rest is None. `unfounded`: those
    of them in which, for some time, surely fewer than a majority held the value; `longest_ms`: the longest such time;
    `by_cause`: the unfounded ones by the loss that most nodes had."""

    sections: int
    unfounded: int | None = None
    longest_ms: float | None = None
    by_cause: dict[Loss, int] | None = None

    def rows(self) -> Iterator[Row]:
        """`0 of 295 sections (95 % upper bound for this run 1.3 %) not backed by a majority`."""
        if self.sections:
            text = f"{of_sections(self.unfounded, self.sections)} not backed by a majority"
            found = (self.by_cause or {}).items()
            causes = ", ".join(f"{in_words(loss)} {number:,}" for loss, number in found if number)
            detail = f", for up to {milliseconds(self.longest_ms)}: {causes}" if self.unfounded else ""
            yield Row("quorum", text + detail, order=80)

    def parts(self) -> Iterator[Part]:
        for row in self.rows():
            note = (
                "A section is not backed by a majority when surely too few nodes held its value although its client "
                "was within its validity."
            )
            yield Part(KEYS_ON_NODES, order=21, sentences=(row.text,), note=note)


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    backing = run.backing
    if backing is None:
        return Answer()
    if not backing.owners.are_shown:
        return Answer(Figures(sections=0))
    stretches = list(_stretches(run, backing))
    causes = Counter(map(backing.cause, stretches))
    found = {stretch.section for stretch in stretches}
    until = dict(_certain_ends(run, backing))
    figures = Figures(
        sections=sum(section in found or backing.was_watched(section, at_ns) for section, at_ns in until.items()),
        unfounded=len(stretches),
        longest_ms=max((stretch.length_ns for stretch in stretches), default=0) / 1e6,
        by_cause={loss: causes[loss] for loss in LOSSES},
    )
    return Answer(figures, _unfounded(run, backing, stretches))


def _stretches(run: Recorded, backing: Backing) -> Iterator[WeakStretch]:
    """The longest time without a majority within each section's certain window, where there is one."""
    start = run.sections["start_ns"].tolist()
    for section, until_ns in _certain_ends(run, backing):
        stretch = backing.unbacked(section, start[section], until_ns)
        if stretch is not None:
            yield stretch


def _certain_ends(run: Recorded, backing: Backing) -> Iterator[tuple[int, int]]:
    """The sections whose values the lock showed, and when the certain window of each ends."""
    start, end, deadline = (run.sections[name].tolist() for name in ("start_ns", "end_ns", "deadline_min_ns"))
    for section in backing.owners.values:
        yield section, max(start[section], min(end[section], deadline[section]))


def _unfounded(run: Recorded, backing: Backing, stretches: list[WeakStretch]) -> tuple[Finding, ...]:
    findings = []
    for by_lock in (True, False):
        some = [stretch for stretch in stretches if backing.is_the_locks_doing(stretch) is by_lock]
        if not some:
            continue
        longest = max(some, key=lambda stretch: stretch.length_ns)
        causes = Counter(map(backing.cause, some))
        words = ", ".join(f"{in_words(loss)} {causes[loss]}" for loss in LOSSES if causes[loss])
        text = (
            f"in {plural(len(some), 'section')} the client's lease was still valid, but no majority of the nodes "
            f"can have held its key for up to {milliseconds(longest.length_ns / 1e6)} ({words})"
        )
        blame: Blame = "lock" if by_lock else "undecided"
        commonest = causes.most_common(1)[0][0]
        typical = [stretch for stretch in some if backing.cause(stretch) == commonest]
        worst = max(typical, key=lambda stretch: stretch.length_ns)
        examples = tuple(_example(run, backing, stretch) for stretch in worst_first(typical, worst))
        at_ms = run.at_ms(min(stretch.from_ns for stretch in some))
        findings.append(UNFOUNDED.found(blame, text, len(some), examples, at_ms))
    return tuple(findings)


def _example(run: Recorded, backing: Backing, stretch: WeakStretch) -> dict[str, object]:
    section = run.sections.iloc[stretch.section]
    return {
        **named(section),
        "at_ms": run.at_ms(stretch.from_ns),
        "for_ms": stretch.length_ns / 1e6,
        "cause": backing.cause(stretch),
        "nodes": losses_by_node(stretch.losses),
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    why = "; ".join(printable(str(node)) for node in example.get("nodes", ()))
    text = (
        f"{example['client']} was inside and within its reported validity. Yet for {case.lasting()}, from {case.at()} "
        f"on, no majority of the nodes can have held its key{f': {why}' if why else ''}."
    )
    side = case.named.get("section")
    few = None if side is None else few_had_granted(run, evidence, side)
    if few is None:
        did = None if side is None else _own_doing(run, side, example)
        if did is None:
            anew = None if side is None else _set_anew(run, side, example)
            text = text if anew is None else f"{text} Then {anew}."
            why, cause = "", None
            if side is not None and example["cause"] == "expired":
                ended_ns = run.at_ns(float(example["at_ms"]) + float(example["for_ms"]))
                why, cause = renewals_ended(run, side, ended_ns)
            return Told(f"{text[:-1]}; {why}." if why else text, cause=cause or of_loss(example["cause"]))
        return Told(
            f"{text} In the end {did}.", cause="deleted by itself" if example["cause"] == "deleted" else "short TTL"
        )
    return Told(f"{text} {few.text}", cause=few.cause)


def _own_doing(run: Recorded, side: Side, example: Mapping[str, Any]) -> str | None:
    """The last request of the client itself that deleted its key, or gave it a TTL that was over at once, if most nodes
    where it was deleted, or expired, lost it by such a request."""
    ledger, how = run.ledger, example["cause"]
    if ledger is None or how not in ("deleted", "expired"):
        return None
    rows = ledger.rows
    until_ns = run.at_ns(example["at_ms"])
    gone = where(rows, rows["owner"] >= 0, rows["at_ns"] <= until_ns + _ROUNDED_NS, what=how)
    setters = rows.iloc[gone["owner"].to_numpy(np.int64)]
    last = where(gone, side.made(setters)).groupby("node", observed=True).tail(1)
    asked = last.index if how == "deleted" else last["owner"]
    changes = [ledger.change(int(row)) for row in asked]
    if how == "deleted":
        own = [change for change in changes if may_be_of(change, side.client)]
    else:
        own = [one for one in changes if (lived_ms(ledger, one) or run.lease_ms) < run.lease_ms / 2]
    if 2 * len(own) <= len(changes):
        return None
    latest = max(own, key=lambda change: int(change["at_ns"]))
    return who_did(run, latest, side.client, "deleted the key" if how == "deleted" else over_at_once(run, latest))


def _set_anew(run: Recorded, side: Side, example: Mapping[str, Any]) -> str | None:
    """The first request of the client itself, other than to acquire, that set its value once more while inside."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    from_ns = run.at_ns(example["at_ms"]) - _ROUNDED_NS
    own = where(rows, side.made(rows), what="set")
    is_asked = which(own, is_in_call=True, f=("acquire", "reenter"))
    values = own["value"][is_asked].dropna().tolist()
    anew = where(own, ~is_asked, own["at_ns"].between(from_ns, side.end_ns), value=values).index
    if not len(anew):
        return None
    return who_did(run, run.ledger.change(int(anew[0])), side.client, "set the key anew")


UNFOUNDED: Final = FindingKind(
    "lease-without-majority",
    "lease",
    _told,
    comes_of=("not prolonged", "not renewed", "refused renewal", "renewed elsewhere", "renewed another key"),
    noun="section(s) not backed by a majority",
    surveyed="validity",
)
