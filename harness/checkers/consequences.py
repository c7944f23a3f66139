"""Which findings of a run follow from another one, so that each cause is reported once.

A finding follows from one that began no later, or that can follow from none (it only stands for a cause), if

- it is about data, and the other one is the meeting of clients that has the same blame: lost updates and stale writes
  are blamed as the overlap is in which they happened;
- the explanations of both name the same cause, and the other one is no later link of the chain: what the lock did to
  the keys or told its clients, then clients that met or were kept out, then data;
- its kind says that it comes of the other one's cause (`FindingKind.comes_of`); then the other one may also have begun
  while the first case of this one lasted. Not so if its own explanations name another thing that kept clients out,
  or if all cases of the other one are of other keys than the examples of this one.

Of several findings that it may follow from, keys that were stuck are the nearest; else it is the earliest.

What a cause comes of (`harness.explain.causes.COMES_OF`) counts as the same cause. Of several findings that name one
cause and are links of the same place, the one with the most cases stands for it, whichever was noticed first.

Nothing follows from what is blamed on another part, except what comes of the lock's own doing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from harness.checkers.kinds import kind_of
from harness.explain.causes import COMES_OF, KEEP_CLIENTS_OUT, Cause
from harness.explain.explanation import Explained
from harness.promises import Belongs
from harness.verdict import Finding, Verdict, ordered

_LINKS: Final[Mapping[Belongs | None, int]] = {"exclusion": 1, "liveness": 1, "data": 2}
"""The place in the chain of what breaks this promise, unless it is itself a cause; 0 for the others."""
_NEAREST: Final[Cause] = "stuck keys"
_VALUE: Final = "shared value"
_WITHOUT_VALUE: Final[tuple[Cause, ...]] = ("deleted", "overwritten", "prolonged")
"""A request that is known to have done so without comparing the key's value did not do it for the value that it has."""
_WORST_FIRST: Final[Mapping[Belongs | None, int]] = {"exclusion": 0, "data": 1, "lease": 1}
"""How bad it is that this promise is broken; 2 for the others."""


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
    """All findings; first what makes the run a violation, or led to that; of these what broke the worst promise, what
    the lock did before what its clients met, then what has a cause that is known, what did clients harm, and then what
    has the most cases."""
    found = ordered(verdict)
    timed = sorted((f for f in found if f.at_ms is not None), key=lambda f: (f.at_ms, _link(f)))
    causes = {id(finding): _cause(finding, explained) for finding in found}
    in_order = sorted(timed, key=lambda f: not _is_root(f))
    first: dict[int, Finding] = {}
    for place, finding in enumerate(in_order):
        sources = [before for before in in_order[:place] if _leads_to(before, finding, causes)]
        source = next((one for one in sources if kind_of(one).stands_for == _NEAREST), next(iter(sources), None))
        first[id(finding)] = finding if source is None else first[id(source)]
    for finding in timed:
        if first[id(finding)] is finding:
            source = next((other for other in timed if _began_in(other, finding, causes)), finding)
            first |= {one: first[id(source)] for one, head in first.items() if head is finding}
    groups: dict[int, tuple[Finding, list[Finding]]] = {}
    for finding in found:
        head = first.get(id(finding), finding)
        groups.setdefault(id(head), (head, []))[1].append(finding)
    told = [_together(head, group, causes) for head, group in groups.values()]
    return tuple(sorted(told, key=lambda one: _rank(one, causes, verdict.require)))


def _together(head: Finding, group: Sequence[Finding], causes: Mapping[int, Cause | None]) -> OneCause:
    """`group`: the findings that follow from the head, and itself."""

    def what(finding: Finding) -> tuple[object, ...]:
        return finding.blame, causes[id(finding)], _link(finding)

    alike = [each for each in group if what(each) == what(head) and causes[id(head)] is not None]
    head = max([head, *alike], key=lambda each: each.count)
    others = (each for each in group if each is not head)
    return OneCause(head, tuple(sorted(others, key=lambda each: (each.at_ms or 0, _link(each)))))


def _rank(cause: OneCause, causes: Mapping[int, Cause | None], require: str) -> tuple[bool | int, ...]:
    group, is_unnamed = (cause.finding, *cause.consequences), causes[id(cause.finding)] is None
    decides = min((not f.decides(require), f.blame != "lock") for f in group)
    worst = min(_WORST_FIRST.get(f.promise, len(_WORST_FIRST) - 1) for f in group)
    is_harmless = not any(_link(f) for f in group)
    return (*decides, worst, _link(cause.finding) > 0, is_unnamed, is_harmless, -sum(f.count for f in group))


def _began_in(other: Finding, finding: Finding, causes: Mapping[int, Cause | None]) -> bool:
    """Whether the finding comes of the other one, which began later, while the first of its own still lasted."""
    began_ms, other_ms = finding.at_ms or 0, other.at_ms or 0
    lasted = (float(e.get("for_ms", 0)) for e in finding.examples if e.get("at_ms") == finding.at_ms)
    is_within = began_ms < other_ms <= began_ms + max(lasted, default=0)
    return is_within and _comes_of(finding, other, causes) and not _leads_to(finding, other, causes)


def _is_root(finding: Finding) -> bool:
    """Whether it stands for a cause, and can follow from none. When its first example was is a lower bound."""
    kind = kind_of(finding)
    return kind.stands_for is not None and not kind.comes_of


def _link(finding: Finding) -> int:
    return 0 if kind_of(finding).stands_for else _LINKS.get(finding.promise, 0)


def _leads_to(before: Finding, finding: Finding, causes: Mapping[int, Cause | None]) -> bool:
    if _comes_of(finding, before, causes):
        return True
    cause, own = causes[id(before)], causes[id(finding)]
    if before.blame != finding.blame or finding.blame not in ("lock", "client", "undecided"):
        return False
    if finding.promise == "data" and before.promise == "exclusion":
        return True
    is_same = cause is not None and own is not None and cause in (own, *COMES_OF.get(own, ()))
    return is_same and _link(before) <= _link(finding)


def _comes_of(finding: Finding, before: Finding, causes: Mapping[int, Cause | None]) -> bool:
    # What nodes may have lost themselves is not what the lock did.
    is_nodes = finding.blame == "undecided" and finding.promise == "lease"
    is_another = before.kind != finding.kind  # of the same kind, one is no more than another case
    cause, own = causes[id(before)], causes[id(finding)]
    if cause == _VALUE and own in _WITHOUT_VALUE:
        return False
    if own in KEEP_CLIENTS_OUT and own not in (cause, kind_of(finding).stands_for):
        return False
    if _are_of_other_keys(before, finding):
        return False
    return before.blame == "lock" and cause in kind_of(finding).comes_of and is_another and not is_nodes


def _are_of_other_keys(before: Finding, finding: Finding) -> bool:
    """Whether no example of the finding has a key of the other one, all of whose cases are examples with a key."""
    keys, own = ({each.get("key") for each in one.examples} for one in (before, finding))
    is_whole = len(before.examples) == before.count
    return is_whole and None not in keys | own and keys.isdisjoint(own)


def _cause(finding: Finding, explained: Sequence[Explained]) -> Cause | None:
    """What its explanations name; else what its kind stands for."""
    return named_cause(finding, explained) or kind_of(finding).stands_for


def named_cause(finding: Finding, explained: Sequence[Explained]) -> Cause | None:
    """What most of its explanations name; None if most of them do not know it."""
    told = [one.explanations for one in explained if one.finding is finding]
    named = Counter(each.cause for some in told for each in some if each.cause is not None)
    cause = named.most_common(1)[0][0] if named else None
    return None if cause == "unknown" else cause
