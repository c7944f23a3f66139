"""Could a client that holds the lock acquire it again (`--reenter`)?

A lock that is not re-entrant refuses while the lease lasts, which harms nobody; after that it may grant the lock anew.
If it is re-entrant, the client is inside until its last release; that somebody else was let in by an earlier one shows
as an overlap.

A yes that came while another client was certainly inside, within its lease and from before the request to after the
answer, is wrong, whatever had become of the first lease: the lock told two clients at once that they have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.text import count, plural
from harness.figures import CheckerFigures, Row
from harness.history.key_owners import rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding


class Figures(CheckerFigures, frozen=True):
    """How many times a client acquired the lock that it held, was refused, or was not told."""

    granted: int
    refused: int
    unknown: int

    def rows(self) -> Iterator[Row]:
        """`120 acquires by the holder granted, 3 refused`."""
        text = f"{count(self.granted)} acquires by the holder granted, {count(self.refused)} refused"
        yield Row("reenter", text + (f", {count(self.unknown)} unknown" if self.unknown else ""), order=59)


class _Yes(NamedTuple):
    client: str
    section: int
    key: str
    asked_ns: int
    answered_ns: int
    holder: str


def check(run: Recorded) -> Answer:
    """No figures where nobody tried."""
    outcomes = run.ops.loc[run.ops["f"] == "reenter", "outcome"].astype(str).tolist()
    if not outcomes:
        return Answer()
    figures = Figures(outcomes.count("ok"), outcomes.count("fail"), outcomes.count("info"))
    wrong = list(_beside_others(run)) if run.permits == 1 else []
    return Answer(figures, (_finding(run, figures.granted, wrong),) if wrong else ())


def _beside_others(run: Recorded) -> Iterator[_Yes]:
    """The nested acquires that were granted while somebody else was certainly inside."""
    sections = list(rows_of(run.sections, "client", "key", "start_ns", "end_ns", "deadline_min_ns"))
    yes = run.ops[((run.ops["f"] == "reenter") & (run.ops["outcome"] == "ok")).to_numpy(bool)]
    for client, section, key, asked_ns, answered_ns in rows_of(
        yes, "client", "section", "key", "invoke_ns", "complete_ns"
    ):
        for other, of, start_ns, end_ns, deadline_ns in sections:
            if of == key and other != client and start_ns <= asked_ns and answered_ns <= min(end_ns, deadline_ns):
                yield _Yes(str(client), section, str(key), asked_ns, answered_ns, str(other))
                break


def _finding(run: Recorded, granted: int, wrong: list[_Yes]) -> Finding:
    text = (
        f"{count(len(wrong))} of {plural(granted, 'nested acquire')} {'was' if len(wrong) == 1 else 'were'} granted "
        "while another client was inside, within its lease"
    )
    examples = tuple(
        {
            "client": one.client,
            "section": one.section,
            "key": one.key,
            "at_ms": run.at_ms(one.answered_ns),
            "holder": one.holder,
        }
        for one in wrong[:3]
    )
    return Finding("nested-acquire-beside-another", "lock", text, ("lease", "exclusion"), len(wrong), examples)
