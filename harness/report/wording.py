"""The words that every report shares: who is to blame, the sentence of a verdict, an example of a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from fencepost.text import cut, milliseconds, plural, printable
from harness.checkers import capacity, exclusion
from harness.checkers.consequences import OneCause, named_cause, one_by_one
from harness.checkers.kinds import kinds
from harness.explain.causes import IN_WORDS
from harness.explain.explanation import Explained
from harness.promises import required
from harness.verdict import Blame, Finding, Outcome, Verdict, hidden

_BLAME: Final[Mapping[Blame, str]] = {
    "lock": "the lock is to blame",
    "client": "the client is to blame: it outlived its lease",
    "undecided": "who is to blame is undecided",
    "resource": "the resource is to blame",
    "harness": "the harness itself is to blame",
}
_NAMES_SHOWN: Final = 8
_LONGEST_TEXT: Final = 200
_CONSEQUENCES: Final = 3
_LINK: Final = {"led to": "led to", "related": "related:"}
_GRAVEST: Final = ("exclusion", "data", "liveness")
_SHOWN: Final = {"met": "met", "missed": "MISSED", "unknown": "unknown"}
_KEPT: Final[Mapping[str, str]] = {
    "lock": "no promise broken by the lock",
    "lease": "no overlap blamed on the lock",
    "exclusion": "no overlap at all",
    "data": "no lost update and no stale write accepted",
    "liveness": "no client was kept out for longer than the faults explain",
}


def blame(value: Blame) -> str:
    return _BLAME[value]


def with_headline(verdict: Verdict, explained: Sequence[Explained]) -> Verdict:
    """The verdict with the headline that these explanations of its findings give it."""
    return replace(verdict, headline=headline(verdict, explained)[1])


def headline(verdict: Verdict, explained: Sequence[Explained] = ()) -> tuple[str, str]:
    """The verdict as (`VALID` | `VIOLATION` | `LIMIT MISSED` | `UNKNOWN`, what follows the dash): the first cause and
    what it led to; which limits were missed; and what the word alone would hide (`harness.verdict.hidden`)."""
    word = verdict.conclusion.upper()
    if verdict.headline:
        return word, verdict.headline
    if verdict.verdict == "violation":
        return word, _first_cause(verdict, explained)
    told = list(map(str, verdict.limits_that("missed")))
    if word == "UNKNOWN" or verdict.verdict == "unknown":
        told += [printable(reason).rstrip(".") for reason in verdict.unknown]
        told += map(str, verdict.limits_that("unknown"))
        return word, f"{'; '.join(told) or 'the run recorded too little to judge it'}{_but(verdict)}"
    if not told:
        told = [_kept(verdict)]
    return word, f"{'; '.join(told)}{_but(verdict)}"


def _first_cause(verdict: Verdict, explained: Sequence[Explained]) -> str:
    """`the key was overwritten: 36 sections not backed by a majority, first after 2.4 s; led to 63 overlaps, 34 lost
    updates; the lock is to blame`."""
    causes = one_by_one(verdict, explained)
    if not causes:
        return f"of --require {verdict.require}"
    first, *others = causes
    finding = first.finding
    named = named_cause(finding, explained)
    told = f"{IN_WORDS[named]}: " if named else ""
    told += counted([finding])
    if finding.at_ms is not None:
        told += f", {'first ' if finding.count > 1 else ''}after {milliseconds(finding.at_ms)}"
    if first.consequences:
        told += f"; {_LINK[first.link]} {_worst_of(first.consequences)}"
    more = sum(_decides(each, verdict) for each in others)
    also = f" (and {plural(more, 'other cause')})" if more else ""
    return f"{told}; {blame(finding.blame)}{also}"


def _decides(cause: OneCause, verdict: Verdict) -> bool:
    return any(each.decides(verdict.require) for each in (cause.finding, *cause.consequences))


def _worst_of(consequences: Sequence[Finding]) -> str:
    """The findings that matter most to the users of a lock, and how many others there are."""
    kinds_of = dict.fromkeys(each.kind for each in sorted(consequences, key=_gravity))
    same = [[each for each in consequences if each.kind == kind] for kind in kinds_of]
    told = ", ".join(map(counted, same[:_CONSEQUENCES]))
    return told + (f" and {plural(more, 'more finding')}" if (more := len(same) - _CONSEQUENCES) > 0 else "")


def _gravity(finding: Finding) -> int:
    return _GRAVEST.index(finding.promise) if finding.promise in _GRAVEST else len(_GRAVEST)


def counted(findings: Sequence[Finding]) -> str:
    """`9 overlaps`: of findings of one kind, how many there are."""
    number, kind = sum(finding.count for finding in findings), findings[0].kind
    known = kinds().get(kind)
    return known.counted(number) if known else f"{number:,} × {printable(kind.replace('-', ' '))}"


def _kept(verdict: Verdict) -> str:
    meetings = meetings_in(verdict)
    where = f" in {plural(meetings.sections, 'section')}" if meetings else ""
    words = {**_KEPT}
    if isinstance(meetings, capacity.Figures):
        words["exclusion"] = f"never more than {plural(meetings.permits, 'client')} inside at once"
        words["lease"] = f"{words['exclusion']} by the lock's fault"
    return " and ".join(words[name] for name in required(verdict.require)) + where


def outcomes(verdict: Verdict) -> Iterator[str]:
    """What follows the headline: how each promise came out, and each limit, a line each; nothing for what was not
    asked."""
    if verdict.promises:
        yield promises(verdict)
    yield from limit_lines(verdict)


def limit_lines(verdict: Verdict) -> Iterator[str]:
    """How each limit came out, in one line; nothing if none was set."""
    if verdict.limits:
        yield f"limits: {' · '.join(f'{each} ({_SHOWN[each.outcome]})' for each in verdict.limits)}"


def promises(verdict: Verdict) -> str:
    """`exclusion kept · lease kept · liveness BROKEN · data 24 × lost update (not required)`: how each promise that was
    judged came out. Empty if none was."""
    return " · ".join(f"{name} {came_out}" for name, came_out, _ in promise_outcomes(verdict))


def promise_outcomes(verdict: Verdict) -> list[tuple[str, str, str]]:
    """Each promise, how it came out in words, and the outcome as a word of `Outcome` ("broken" only if it decides)."""
    return [
        (
            each.promise,
            _came_out(verdict, each),
            "found" if each.outcome == "broken" and not each.decides else each.outcome,
        )
        for each in verdict.promises
    ]


def _came_out(verdict: Verdict, outcome: Outcome) -> str:
    if outcome.outcome != "broken":
        return outcome.outcome
    if outcome.decides:
        return "BROKEN"
    found = [finding for finding in verdict.findings if finding.breaks == outcome.promise]
    number = {kind: sum(f.count for f in found if f.kind == kind) for kind in dict.fromkeys(f.kind for f in found)}
    counted = ", ".join(f"{times:,} × {printable(kind.replace('-', ' '))}" for kind, times in number.items())
    return f"{counted} (not required)"


def _but(verdict: Verdict) -> str:
    """`, but 24 of 137 acknowledged updates were lost without fencing, by a client that had outlived its lease`."""
    also = hidden(verdict.findings, verdict.require)
    return f", but {'; '.join(printable(finding.text).rstrip('.') for finding in also)}" if also else ""


def meetings_in(verdict: Verdict) -> exclusion.Figures | capacity.Figures | None:
    """The figures about clients that were inside together and should not have been; None if that was not judged."""
    return verdict.of(exclusion.Figures) or verdict.of(capacity.Figures)


def example(values: Mapping[str, object]) -> str:
    """One example of a finding as `client c3 · section 17 · at 12,034.5 ms`."""
    parts = []
    for name, value in values.items():
        label, unit = (name[:-3], " ms") if name.endswith("_ms") else (name, "")
        parts.append(f"{label.replace('_', ' ')} {_plain(value)}{unit}")
    return printable(" · ".join(parts))


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        more = len(value) - _NAMES_SHOWN
        shown = [_plain(v) for v in (value[:_NAMES_SHOWN] if more > 0 else value)]
        return " and ".join([*shown, f"{more:,} more"] if more > 0 else shown)
    if isinstance(value, Mapping) and {"client", "section"} <= value.keys():
        text = f"{value['client']} in section {value['section']}"
        begin, end = value.get("start_ms"), value.get("end_ms")
        if begin is not None and end is not None:
            text += f" ({_plain(begin)} to {_plain(end)} ms)"
        return text + "".join(f", {name} {value[name]}" for name in ("value", "token") if value.get(name) is not None)
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{k} {_plain(v)}" for k, v in value.items()) + ")"
    return f"{value:z,.1f}" if isinstance(value, float) else cut(str(value), _LONGEST_TEXT)
