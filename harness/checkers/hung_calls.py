"""Did a call of the lock hang?

A client that extends or releases, or acquires within a limit that its lock has declared, says something to a node
sooner or later. A call hangs if, for a lease, what the lock allows its acquires, and as long as a client may sleep
beside a free lock (`harness.checkers.free_waits`),

- the client sent nothing to any node and heard nothing, and nothing of what it had sent was on its way;
- no fault was in force on the lock's nodes, on the client or its links, and the client ran.

It does not matter whether the call ended later, or whether the run ended first: a client that was killed or cut off in
the middle of it counts. This costs time and no safety, so it breaks only `liveness`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fencepost.text import listed, milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import CheckerFigures, Row
from harness.history.fault_windows import between
from harness.history.groups import columns_of, rows_of, where
from harness.history.link_activity import Links
from harness.history.recorded import Recorded
from harness.history.stretches import Stretch, in_order, longest, longest_ms
from harness.history.waits import Wait, in_the_way, patience_ns, silences
from harness.verdict import Answer, Finding

_DOING: Final = {"acquiring": "acquire", "extending": "extend", "releasing": "release"}
_COMPLETED: Final = ("extend", "held", "reenter", "leave", "release")


class Figures(CheckerFigures, frozen=True):
    """`calls`: how many hung. `longest_ms`: for how long; None if none did. `allowed_ms`: how long a call may send and
    receive nothing."""

    calls: int
    longest_ms: float | None
    allowed_ms: float

    def rows(self) -> Iterator[Row]:
        if self.calls:
            text = f"{plural(self.calls, 'call')} of the lock hung for up to {milliseconds(self.longest_ms)}"
            yield Row("hung", text, order=91)


@dataclass(frozen=True, slots=True)
class _Hung(Stretch):
    """A call, and when it said nothing."""

    f: str
    call: Wait


def check(run: Recorded) -> Answer:
    """No figures where what went over the links is not on record."""
    wire = run.wire()
    if wire is None or not wire.recorded.issuperset(run.nodes):
        return Answer()
    links, allowed_ns = Links(wire), round(allowed_ms(run) * 1e6)
    hung = list[_Hung]()
    for f, call in _long_calls(run, allowed_ns):
        calm = between(in_the_way(run, call, []), call.since_ns, call.until_ns)
        said_nothing = [
            _Hung(*silence, f, call)
            for span in calm
            for silence in silences(run, call, links.of(call.client), span, allowed_ns)
        ]
        hung += [longest(said_nothing)] if said_nothing else []
    hung = in_order(hung)
    return Answer(Figures(len(hung), longest_ms(hung), allowed_ms(run)), (_finding(run, hung),) if hung else ())


def allowed_ms(run: Recorded) -> float:
    """How long a call may say nothing."""
    return max(run.lease_ms, run.acquire_limit_ms or 0) + patience_ns(run) / 1e6


def _long_calls(run: Recorded, least_ns: int) -> Iterator[tuple[str, Wait]]:
    """The calls that lasted that long: completed ones, and calls during which a client ended. An acquire counts if the
    lock declares a limit; another one may wait for as long as others hold the lock."""
    counted = (*_COMPLETED, "acquire") if run.acquire_limit_ms is not None else _COMPLETED
    invoke, complete = columns_of(run.ops, "invoke_ns", "complete_ns")
    long = where(run.ops, complete - invoke >= least_ns, f=counted)
    for f, client, key, since, until in rows_of(long, "f", "client", "key", "invoke_ns", "complete_ns"):
        yield str(f), Wait(str(client), str(key), since, until)
    for end in run.ends:
        f = _DOING.get(end.under_way or "", "")
        if f in counted and end.since_ns is not None and end.at_ns - end.since_ns >= least_ns:
            yield f, Wait(end.client, "", end.since_ns, end.at_ns, is_over=False)


def _finding(run: Recorded, hung: Sequence[_Hung]) -> Finding:
    calls = "1 call" if len(hung) == 1 else f"{len(hung)} calls"
    steps = listed(sorted({one.f for one in hung}))
    text = (
        f"{calls} of the lock ({steps}) hung: up to {milliseconds(longest_ms(hung))} without a request to any "
        f"node or an answer, although no fault was in the way ({milliseconds(allowed_ms(run))} allowed)"
    )
    return HUNG.of(hung, text, partial(_example, run), longest(hung))


def _example(run: Recorded, one: _Hung) -> dict[str, object]:
    return {
        "client": one.call.client,
        "call": one.f,
        **run.lasted(one),
        "called_ms": run.at_ms(one.call.since_ns),
        "returned": one.call.is_over,
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, end = case.text("client"), "returned later" if case.example["returned"] else "did not return"
    return Told(
        f"The {case.text('call')} that {client} called at {case.at('called_ms')} sent nothing and heard nothing for "
        f"{case.lasting()}, from {case.at()} on, although no fault was in the way and {client} ran; it {end}."
    )


HUNG: Final = FindingKind("call-hung", "liveness", _told, noun="hung call(s)", surveyed="timeout")
