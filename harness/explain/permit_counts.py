"""Counts of permits on the nodes that a release has lowered below zero: it gave back what they no longer had."""

from __future__ import annotations

from harness.explain.examples import Side
from harness.history.ledger import ENDINGS, Change
from harness.history.recorded import Recorded


def below_zero(run: Recorded, entered: Side) -> Change | None:
    """The last release that left a count below zero which the client's acquire changed then; None if there is none, or
    the count began anew since."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    own = (rows["task"] == entered.client) & (rows["section"] == entered.section) & (rows["f"] == "acquire")
    before = rows["at_ns"] <= entered.start_ns
    low: dict[tuple[str, str], Change | None] = {}
    for row in rows[(before & rows["key"].isin(rows["key"][own].unique())).to_numpy(bool)].index.tolist():
        change = run.ledger.change(row)
        place = (change["node"], change["key"])
        if change["what"] in ENDINGS:
            low[place] = None
        if change["f"] == "release" and str(change["value"]).startswith("-") and str(change["value"])[1:].isdecimal():
            low[place] = change
    return max(filter(None, low.values()), key=lambda change: int(change["at_ns"]), default=None)
