"""One cause, told once: which findings of a run follow from another one.

A finding follows from one that began no later, or that can follow from none (it only stands for a cause), if

- it is about data, and the other one is the meeting of clients that has the same blame: lost updates and stale writes
  are blamed as the overlap is in which they happened;
- the explanations of both name the same cause, and the other one is no later link of the chain: what the lock did to
  the keys or told its clients, then clients that met or were kept out, then data;
- its kind says that it comes of the other one's cause (`FindingKind.comes_of`); then the other one may also have begun
  while the first case of this one lasted.

Nothing follows from what is blamed on another part, except what comes of the lock's own doing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from harness.checkers.kinds import kinds
from harness.explain.causes import Cause
from harness.explain.explanation import Explained
from harness.promises import Belongs
from harness.verdict import Finding, Verdict, ordered

_LINKS: Final[Mapping[Belongs | None, int]] = {"exclusion": 1, "liveness": 1, "data": 2}
"""The place in the chain of what breaks this promise, unless it is itself a cause; 0 for the others."""


class OneCause(NamedTuple):
    """A finding that follows from no other, with its consequences, the earliest first."""

    finding: Finding
    consequences: tuple[Finding, ...] = ()

    @property
    def link(self) -> Literal["led to", "related"]:
        """What the finding is to the others: `related` if one of them began earlier, so that this one is a case of the
        cause that they share, and not where they come from."""
        began_ms = self.finding.at_ms or 0
        return "related" if any((each.at_ms or 0) < began_ms for each in self.consequences) else "led to"


def one_by_one(verdict: Verdict, explained: Sequence[Explained]) -> tuple[OneCause, ...]:
    """All findings; first what makes the run a violation, or led to that; then overlaps, and what led to them. What the
    lock did comes before what its clients met."""
    found = ordered(verdict)
    timed = sorted((f for f in found if f.at_ms is not None), key=lambda f: (f.at_ms, _link(f)))
    causes = {id(finding): _cause(finding, explained) for finding in found}
    in_order = sorted(timed, key=lambda f: not _is_root(f))
    first: dict[int, Finding] = {}
    for place, finding in enumerate(in_order):
        source = next((before for before in in_order[:place] if _leads_to(before, finding, causes)), None)
        first[id(finding)] = finding if source is None else first[id(source)]
    for finding in timed:
        if first[id(finding)] is finding:
            source = next((other for other in timed if _began_in(other, finding, causes)), finding)
            first |= {one: first[id(source)] for one, head in first.items() if head is finding}
    groups: dict[int, list[Finding]] = {}
    for finding in found:
        groups.setdefault(id(first.get(id(finding), finding)), []).append(finding)
    heads = list({id(head): head for head in (first.get(id(finding), finding) for finding in found)}.values())
    heads.sort(key=lambda head: _rank(head, groups[id(head)], verdict.require))
    return tuple(OneCause(head, tuple(f for f in timed if f is not head and first[id(f)] is head)) for head in heads)


def _rank(head: Finding, group: Sequence[Finding], require: str) -> tuple[bool, ...]:
    decides = min((not f.decides(require), f.blame != "lock") for f in group)
    return (*decides, all(f.promise != "exclusion" for f in group), _link(head) > 0)


def _began_in(other: Finding, finding: Finding, causes: Mapping[int, Cause | None]) -> bool:
    """Whether the finding comes of the other one, which began later, while the first of its own still lasted."""
    began_ms, other_ms = finding.at_ms or 0, other.at_ms or 0
    lasted = (float(e.get("for_ms", 0)) for e in finding.examples if e.get("at_ms") == finding.at_ms)
    is_within = began_ms < other_ms <= began_ms + max(lasted, default=0)
    return is_within and _comes_of(finding, other, causes) and not _leads_to(finding, other, causes)


def _is_root(finding: Finding) -> bool:
    """Whether it stands for a cause, and can follow from none. When its first example was is a lower bound."""
    kind = kinds().get(finding.kind)
    return kind is not None and kind.stands_for is not None and not kind.comes_of


def _link(finding: Finding) -> int:
    kind = kinds().get(finding.kind)
    return 0 if kind is not None and kind.stands_for else _LINKS.get(finding.promise, 0)


def _leads_to(before: Finding, finding: Finding, causes: Mapping[int, Cause | None]) -> bool:
    if _comes_of(finding, before, causes):
        return True
    cause = causes[id(before)]
    if before.blame != finding.blame or finding.blame not in ("lock", "client", "undecided"):
        return False
    if finding.promise == "data" and before.promise == "exclusion":
        return True
    return cause is not None and cause == causes[id(finding)] and _link(before) <= _link(finding)


def _comes_of(finding: Finding, before: Finding, causes: Mapping[int, Cause | None]) -> bool:
    kind = kinds().get(finding.kind)
    # What nodes may have lost themselves is not what the lock did.
    is_nodes = finding.blame == "undecided" and finding.promise == "lease"
    return before.blame == "lock" and kind is not None and causes[id(before)] in kind.comes_of and not is_nodes


def _cause(finding: Finding, explained: Sequence[Explained]) -> Cause | None:
    """What its explanations name; else what its kind stands for."""
    kind = kinds().get(finding.kind)
    return named_cause(finding, explained) or (kind.stands_for if kind is not None else None)


def named_cause(finding: Finding, explained: Sequence[Explained]) -> Cause | None:
    """What most of its explanations name; None if most of them do not know it."""
    told = [one.explanations for one in explained if one.finding is finding]
    named = Counter(each.cause for some in told for each in some if each.cause is not None)
    cause = named.most_common(1)[0][0] if named else None
    return None if cause == "unknown" else cause
