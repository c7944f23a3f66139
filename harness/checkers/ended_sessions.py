"""Did a lock confirm a session that had ended?

A lock that promises no time is held by a session. Where a session ends with its connection, a yes to a release, a
question or an extension means that the connection on which the lock was granted is still open. The proxy knows when
each connection was closed, and by which side. If all that the client had to the nodes at the grant were closed before
it asked, the yes comes from somewhere else: a connection that was opened anew in silence, or no server at all. A client
that has not yet noticed the end of its session is not meant: what it is told then is no yes. Where a session outlives
its connection (ZooKeeper's does, until its time-out), nothing is said.

A release is answered by the server, so either side may have closed. Whether a lock is held may be answered out of
memory, before the client could know what the server did, so there the client itself must have closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from fencepost.text import milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.words import at, lasting
from harness.figures import CheckerFigures
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of
from harness.history.leases import granted_open_ended
from harness.history.recorded import Recorded, named
from harness.history.sessions import SessionEnds
from harness.verdict import Answer

_WORDS: Final = {"release": "released it", "held": "still held it", "extend": "extended it"}
_EXAMPLES: Final = 5


class Figures(CheckerFigures, frozen=True):
    """`vouched`: how often a lock without a time limit said yes to a release, a question or an extension. `ended`: of
    these, when the session had ended. Shown as a finding."""

    vouched: int
    ended: int


class _Vouched(NamedTuple):
    """A yes to `f`, asked at `invoke_ns`, for a lease that was granted at `start_ns`. `place`: its row in `run.ops`."""

    place: int
    client: str
    f: str
    asked_ns: int
    start_ns: int
    invoke_ns: int


def check(run: Recorded) -> Answer:
    """No figures for locks that promise a time, and where the ends of sessions are not on record."""
    yes = list(_vouched(run.ops))
    connections = run.sessions() if yes else None
    if connections is None:
        return Answer()
    until_ns = FOREVER_NS if run.wire_gaps.ended_ns is None else run.wire_gaps.ended_ns
    ends = SessionEnds(connections, run.config.node_names)
    found = [
        (one, ended_ns)
        for one in yes
        if one.invoke_ns < until_ns and (ended_ns := _ended_ns(ends, one)) < one.invoke_ns
    ]
    figures = Figures(len(yes), len(found))
    if not found:
        return Answer(figures)
    longest = max(one.invoke_ns - ended_ns for one, ended_ns in found)
    text = (
        f"{len(found):,} of {plural(len(yes), 'answer')} vouched for a session that had ended up to "
        f"{milliseconds(longest / 1e6)} earlier, so the lock was not held any more"
    )
    examples = [
        {
            **named(run.ops.iloc[one.place]),
            "at_ms": run.at_ms(one.invoke_ns),
            "said": _WORDS[one.f],
            "ended_ms": run.at_ms(ended_ns),
        }
        for one, ended_ns in found[:_EXAMPLES]
    ]
    return Answer(figures, (ENDED_SESSION.found("lock", text, len(found), examples),))


def _vouched(ops: pd.DataFrame) -> Iterator[_Vouched]:
    grants = ops[granted_open_ended(ops)]
    columns = ("client", "life", "section")
    granted = {
        tuple(of): (asked_ns, start_ns)
        for *of, asked_ns, start_ns in rows_of(grants, *columns, "invoke_ns", "complete_ns")
    }
    if not granted:
        return
    places = np.flatnonzero((ops["f"].isin(list(_WORDS)) & (ops["outcome"] == "ok")).to_numpy(np.bool_))
    rows = rows_of(ops.iloc[places], *columns, "f", "invoke_ns")
    for place, (client, life, section, f, invoke_ns) in zip(places.tolist(), rows, strict=True):
        if (grant := granted.get((client, life, section))) is not None:
            yield _Vouched(place, str(client), str(f), *grant, invoke_ns)


def _ended_ns(ends: SessionEnds, one: _Vouched) -> int:
    return ends.of(one.client, one.asked_ns, one.start_ns, by_client=one.f != "release")


def _tell(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    ago_ns = int((float(example["at_ms"]) - float(example["ended_ms"])) * 1e6)
    ended_ns = run.timeline.start_ns + int(float(example["ended_ms"]) * 1e6)
    return Told(
        f"The lock told {example['client']} at {case.at()} that it {example['said']}. It was "
        f"granted in a session whose connection was closed at {at(run, ended_ns)}, {lasting(ago_ns)} before.",
        cause="ended session",
    )


ENDED_SESSION: Final = FindingKind(
    "ended-session-vouched", "lease", _tell, stands_for="ended session", noun="answer(s) for an ended session"
)
