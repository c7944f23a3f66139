"""The words that every report shares: who is to blame, the sentence of a verdict, an example of a finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.text import plural, printable
from harness.checkers import capacity, exclusion
from harness.promises import required
from harness.verdict import Blame, Outcome, Verdict, breaking, hidden

_BLAME: Final[Mapping[Blame, str]] = {
    "lock": "the lock is to blame",
    "client": "the client is to blame: it outlived its lease",
    "undecided": "who is to blame is undecided",
    "resource": "the resource is to blame",
    "harness": "the harness itself is to blame",
}
_NAMES_SHOWN: Final = 8
_LONGEST_TEXT: Final = 200
_KEPT: Final[Mapping[str, str]] = {
    "lock": "no promise broken by the lock",
    "lease": "no overlap blamed on the lock",
    "exclusion": "no overlap at all",
    "data": "no lost update and no stale write accepted",
    "liveness": "nobody was kept out for longer than the faults explain",
}


def blame(value: Blame) -> str:
    return _BLAME[value]


def headline(verdict: Verdict) -> tuple[str, str]:
    """The verdict as (`VALID` | `VIOLATION` | `UNKNOWN`, what follows the dash): what was found and who is to blame,
    and what the word alone would hide (`harness.verdict.hidden`)."""
    match verdict.verdict:
        case "violation":
            found = breaking(verdict) or verdict.findings
            if not found:
                return "VIOLATION", f"of --require {verdict.require}"
            first = printable(found[0].text).rstrip(".")
            more = len(found) - 1
            also = f" (and {plural(more, 'more finding')})" if more else ""
            return "VIOLATION", f"{blame(found[0].blame)}: {first}{also}"
        case "unknown":
            reasons = "; ".join(printable(r).rstrip(".") for r in verdict.unknown)
            return "UNKNOWN", f"{reasons or 'the run recorded too little to judge it'}{_but(verdict)}"
    meetings = meetings_in(verdict)
    where = f" in {plural(meetings.sections, 'section')}" if meetings else ""
    words = {**_KEPT}
    if isinstance(meetings, capacity.Figures):
        words["exclusion"] = f"never more than {plural(meetings.permits, 'client')} inside at once"
        words["lease"] = f"{words['exclusion']} by the lock's fault"
    kept = " and ".join(words[name] for name in required(verdict.require))
    return "VALID", f"{kept}{where}{_but(verdict)}"


def promises(verdict: Verdict) -> str:
    """`exclusion kept · lease kept · liveness BROKEN · data 24 × lost update (not required)`: how each promise that was
    judged came out. Empty if none was."""
    return " · ".join(f"{each.promise} {_came_out(verdict, each)}" for each in verdict.promises)


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
    """`, but 24 of 137 acknowledged updates were lost without fencing, by a client that had outlived its validity`."""
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
    return f"{value:z,.1f}" if isinstance(value, float) else _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
