"""How a contended lock is passed on: attempts for a grant, grants to other clients in the meantime, and idle time.

Waiting times, gaps without a grant and Jain's fairness are in `harness.checkers.liveness`. Nothing here breaks a
requirement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import pandas as pd

from fencepost.text import MISSING, count, milliseconds, number
from harness.checkers.liveness import Spread, spread
from harness.figures import CheckerFigures, Part, Row, Table, Tile
from harness.history.groups import Codes, Ints, TimeLine, address, codes_in, look_up
from harness.history.recorded import Recorded
from harness.verdict import Answer

ONLY_IF_NAMED: Final = True


class ClientShare(msgspec.Struct, frozen=True):
    """One client: its sections, the attempts that they took on average, and its waiting times from the first attempt to
    the grant; None without sections. `unanswered_ms`: how long it had been trying, in vain, when the load ended; None
    if it was not."""

    client: str
    sections: int
    attempts: float | None
    wait_p50_ms: float | None
    wait_max_ms: float | None
    unanswered_ms: float | None


class Figures(CheckerFigures, frozen=True):
    """`attempts`: acquire calls for each grant. `overtaken`: how many sections of the same key began while a client
    waited for its own. `handover_ms`: from a release to the next grant of the key, where that client had been waiting
    by then. `shares`: one for each client."""

    attempts: Spread
    overtaken: Spread
    handover_ms: Spread
    shares: tuple[ClientShare, ...]

    def rows(self) -> Iterator[Row]:
        attempts, overtaken = (values.in_words(number) for values in (self.attempts, self.overtaken))
        yield Row("attempts", f"{attempts} acquire calls for a grant", order=65)
        yield Row("overtook", f"{overtaken} grants to other clients while a client waited", order=66)
        times = self.handover_ms.in_words(milliseconds)
        yield Row("handover", f"{times} from a release to the next grant, while a client waited", order=67)
        if self.shares:
            fewest, most = (pick(self.shares, key=lambda share: share.sections) for pick in (min, max))
            text = f"{count(fewest.sections)} ({fewest.client}) to {count(most.sections)} ({most.client}) sections"
            waiting = max(self.shares, key=lambda share: share.unanswered_ms or 0)
            if waiting.unanswered_ms is not None:
                text += f"; at the end {waiting.client} had been waiting for {milliseconds(waiting.unanswered_ms)}"
            yield Row("shares", text, order=68)

    def tiles(self) -> Iterator[Tile]:
        attempts, handover = self.attempts, self.handover_ms
        note = f"p99 {number(attempts.p99)}, most {number(attempts.max)}"
        yield Tile("Acquire calls for a grant, p50", number(attempts.p50), note, order=51)
        note = f"from a release to the next grant; p99 {milliseconds(handover.p99)}"
        yield Tile("Handover, p50", milliseconds(handover.p50), note, order=52)

    def parts(self) -> Iterator[Part]:
        yield Part(
            "Contention",
            order=15,
            hint="A client that is refused tries again. How often it must try, and how many others are let in while it "
            "waits, shows how fairly the lock is passed on.",
            pairs=tuple((row.label, row.text) for row in self.rows()),
            tables=(
                Table(
                    corner="client",
                    columns=(
                        "sections",
                        "acquire calls for a grant",
                        "wait p50",
                        "wait max",
                        "waiting at the end",
                    ),
                    rows=tuple((share.client, _cells(share)) for share in self.shares),
                    folded="Each client",
                ),
            ),
        )


def _cells(share: ClientShare) -> tuple[str, ...]:
    waits = (share.wait_p50_ms, share.wait_max_ms, share.unanswered_ms)
    return (
        count(share.sections),
        number(share.attempts),
        *(MISSING if wait is None else milliseconds(wait) for wait in waits),
    )


def check(run: Recorded) -> Answer:
    attempts = _attempts(run)
    figures = Figures(
        attempts=spread(attempts.astype(np.float64)),
        overtaken=spread(_overtaken(run).astype(np.float64)),
        handover_ms=spread(_handovers_ns(run) / 1e6),
        shares=tuple(_shares(run, attempts)),
    )
    return Answer(figures)


def _attempts(run: Recorded) -> Ints:
    """For each section the number of acquire calls."""
    sections, calls = run.sections, run.calls("acquire")
    names = sections["client"].astype("category").cat.categories
    granted, asked = (codes_in(names, table["client"]) for table in (sections, calls))
    numbers = (sections["section"].to_numpy(np.int64), calls["section"].to_numpy(np.int64))
    wanted, called = address((granted, np.maximum(asked, 0)), numbers)
    place = look_up(wanted, np.where(asked < 0, -1, called))
    counted: Ints = np.bincount(place[place >= 0], minlength=len(sections)).astype(np.int64)
    return counted


def _overtaken(run: Recorded) -> Ints:
    """For each section how many others of its key began between its first attempt and its grant."""
    by_key = run.sections_by_key
    start, asked = (by_key.take(run.sections[name].to_numpy(np.int64)) for name in ("start_ns", "asked_ns"))
    line = TimeLine.of(by_key.number, start)
    before = np.searchsorted(line.starts, line.place(asked), side="right")
    overtaken: Ints = np.maximum(np.arange(len(start)) - before, 0)
    return overtaken


def _handovers_ns(run: Recorded) -> Ints:
    """From each release to the next grant of its key, where the next holder had been waiting by then."""
    by_key, sections = run.sections_by_key, run.sections
    start, asked, end = (by_key.take(sections[name].to_numpy(np.int64)) for name in ("start_ns", "asked_ns", "end_ns"))
    released = by_key.take((sections["ended"] == "release").to_numpy(np.bool_))
    handed = released[:-1] & (asked[1:] <= end[:-1]) & (start[1:] >= end[:-1])
    times: Ints = (start[1:] - end[:-1])[by_key.within(handed)]
    return times


def _shares(run: Recorded, attempts: Ints) -> Iterator[ClientShare]:
    names = pd.Index(run.config.client_names)
    client: Codes = codes_in(names, run.sections["client"])
    wait_ms = (run.sections["start_ns"] - run.sections["asked_ns"]).to_numpy(np.float64) / 1e6
    unanswered = _unanswered_ms(run)
    for code, name in enumerate(names):
        own = client == code
        waits, some = wait_ms[own], bool(own.any())
        yield ClientShare(
            client=name,
            sections=int(own.sum()),
            attempts=float(attempts[own].mean()) if some else None,
            wait_p50_ms=float(np.median(waits)) if some else None,
            wait_max_ms=float(waits.max()) if some else None,
            unanswered_ms=unanswered.get(name),
        )


def _unanswered_ms(run: Recorded) -> dict[str, float]:
    """By client, how long it had been trying for a section when the load ended. Only clients whose last operation was a
    refused or unanswered acquire."""
    stop_ns = run.timeline.stop_ns
    if stop_ns is None or not len(run.ops):
        return {}
    ops = run.ops[["client", "life", "section", "f", "outcome", "invoke_ns"]]
    last = ops.drop_duplicates("client", keep="last")
    waiting = last[(last["f"] == "acquire") & (last["outcome"] != "ok")]
    found = {}
    for row in waiting.itertuples():
        same = (ops["client"] == row.client) & (ops["life"] == row.life) & (ops["section"] == row.section)
        found[str(row.client)] = max(stop_ns - int(ops["invoke_ns"][same].min()), 0) / 1e6
    return found
