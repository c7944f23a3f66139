"""Did clients wait behind a node of the server's tree that no client would delete?

Where a lock is a queue of nodes in a server's tree (ZooKeeper), a client watches the node before its own until that is
gone. It was kept out (`harness.explain.watched_nodes`) by the node of a call that had ended without the lock, of a
section that was released, or of a client that was gone; or clients waited for each other. A finding is a time of
`LEAST_MS` within one acquire in which

- no client was inside (or fewer than a semaphore has permits), and the servers were all in service, and together;
- what kept the client out had been so for twice as long as a session lasts without its client. A node goes with the
  session that made it, so that client can reach a server, and delete it; and no request to do so is on record.

Where a node was deleted, or its session was over, and the client heard nothing of that, its links were well, too. This
costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fencepost.text import milliseconds, plural, printable
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.watched_nodes import Kept, WatchedNodes
from harness.figures import CheckerFigures, Row
from harness.history.fault_windows import FOREVER_NS, between
from harness.history.groups import columns_of, where
from harness.history.recorded import Recorded
from harness.history.stretches import Stretch, in_order, longest, longest_ms
from harness.history.waits import Span, Wait, in_the_way, recorded_waits, used
from harness.verdict import Answer

LEAST_MS: Final = 1_000
_LEAST_NS: Final = LEAST_MS * 1_000_000
_STEP_NS: Final = 250_000_000
"""How often it is looked why a client waits."""


class Figures(CheckerFigures, frozen=True):
    """`waits`: behind such a node; `longest_ms`: for how long; None without any."""

    waits: int
    longest_ms: float | None

    def rows(self) -> Iterator[Row]:
        if self.waits:
            text = f"{plural(self.waits, 'wait')} behind a node that stayed, for up to {milliseconds(self.longest_ms)}"
            yield Row("queue", text, order=61)


@dataclass(frozen=True, slots=True)
class _Behind(Stretch):
    """When a client waited behind a node, and why that was there."""

    wait: Wait
    kept: Kept


def check(run: Recorded) -> Answer:
    """No figures where the record has no watches."""
    if (watched := WatchedNodes.of(run)) is None:
        return Answer()
    found = in_order(list(_behind(run, watched)))
    if not found:
        return Answer(Figures(0, None))
    clients = plural(len({one.wait.client for one in found}), "client")
    text = (
        f"{clients} waited for up to {milliseconds(longest_ms(found))} behind a node {_that(found)}, "
        f"while {_free(run)} and the servers were in service"
    )

    def example(one: _Behind) -> dict[str, object]:
        since = {"waited_since_ms": run.at_ms(one.wait.since_ns)}
        return {"client": one.wait.client, "key": one.wait.key, **run.lasted(one), **since}

    return Answer(Figures(len(found), longest_ms(found)), (BEHIND.of(found, text, example, longest(found)),))


def _behind(run: Recorded, watched: WatchedNodes) -> Iterator[_Behind]:
    """The longest such time of each acquire."""
    apart = [(began, done) for event, began, done in run.fault_windows if event.hit_nodes or event.apart]
    for wait in recorded_waits(run, _LEAST_NS):
        disturbed = in_the_way(run, wait, [])
        found = list[_Behind]()
        for calm_ns, calm_until_ns in between(apart, wait.since_ns, wait.until_ns):
            for began, done in between(_taken(run, wait.key), calm_ns, calm_until_ns):
                if done - began < _LEAST_NS:
                    continue
                last = None
                for at_ns in range(began, done, _STEP_NS):
                    kept = watched.why_waiting(wait.client, at_ns)
                    is_disturbed = any(since_ns <= at_ns < until_ns for since_ns, until_ns in disturbed)
                    if kept is None or (kept.reason.cause == "not notified" and is_disturbed):
                        last = None
                    elif (from_ns := max(kept.since_ns, calm_ns) + 2 * watched.session_ns) <= at_ns:
                        begun_ns = max(began, from_ns) if last is None else last.since_ns
                        last = _Behind(begun_ns, at_ns, wait, kept)
                        found.append(last)
        if found and longest(found).length_ns >= _LEAST_NS:
            yield longest(found)


def _that(found: Sequence[_Behind]) -> str:
    gone = sum(one.kept.reason.cause == "not notified" for one in found)
    stayed = "that no client would delete"
    if not gone:
        return stayed
    return "that was gone, of which no message came" if gone == len(found) else f"{stayed}, or that was gone"


def _free(run: Recorded) -> str:
    return "no client was inside" if run.permits == 1 else "a permit was free"


def _taken(run: Recorded, key: str) -> list[Span]:
    """When as many clients were inside as may be, or the only one was giving the key back."""
    if run.permits == 1:
        return used(run, key)
    start, end = columns_of(where(run.sections, key=key), "start_ns", "end_ns")
    at_ns, steps = np.concatenate([start, end]), np.repeat([1, -1], len(start))
    order = np.lexsort([steps, at_ns])
    is_full = np.cumsum(steps[order]) >= run.permits
    edges = np.append(at_ns[order], FOREVER_NS)
    return [(int(edges[at]), int(edges[at + 1])) for at in np.flatnonzero(is_full).tolist()]


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    watched, client = WatchedNodes.of(run), str(case.example["client"])
    until_ns = run.at_ns(case.example["at_ms"]) + round(float(case.example["for_ms"]) * 1e6)
    text = (
        f"{printable(client)} waited for {case.text('key')} from {case.at('waited_since_ms')} on. From {case.at()} on, "
        f"for {case.lasting()}, {_free(run)}, and the servers were in service"
    )
    kept = None if watched is None else watched.why_waiting(client, until_ns)
    return Told(f"{text}.") if kept is None else Told(f"{text}: {kept.reason.text}.", cause=kept.reason.cause)


BEHIND: Final = FindingKind("waits-behind-node", "liveness", _told, noun="wait(s) behind a node that stayed")
