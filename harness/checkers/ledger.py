"""Does the record explain every change of a key on the nodes? Each was made by a request that went over a link, or the
key expired, or its node was started anew (`harness.history.ledger`). Changes without a cause are counted: a lock that
reaches nodes without its links makes such changes. Where the record of a node's requests is not whole, nothing is
counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np

from fencepost.text import listed, plural
from harness.figures import KeyFigures, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer

_EXAMPLES: Final = 3


class Change(msgspec.Struct, frozen=True):
    """A change that no request on record made: `what` was done to the `key` of the `node`."""

    node: str
    key: str
    what: str
    at_ms: float


class Figures(KeyFigures, frozen=True):
    """`changes`: those of keys that the witness saw; None where the requests to the nodes were not recorded. `without`:
    those of them that no request on record made, and `examples` of these. `not_recorded`: the nodes of which some
    requests are missing."""

    changes: int | None
    without: int = 0
    not_recorded: tuple[str, ...] = ()
    examples: tuple[Change, ...] = ()

    def rows(self) -> Iterator[Row]:
        """`3,884 key changes on the nodes, each by a request on record`."""
        if self.changes is None:
            yield Row("requests", "not recorded: which requests changed the keys on the nodes", order=88)
            return
        changes = plural(self.changes, "key change")
        if self.without:
            verb = "has" if self.without == 1 else "have"
            text = f"{self.without:,} of {changes} on the nodes {verb} no request on record"
        else:
            text = f"{changes} on the nodes, each by a request on record or by expiry"
        if self.not_recorded:
            text += f"; not recorded: all requests to {listed(self.not_recorded)}"
        yield Row("requests", text, order=88)

    def totals(self) -> Mapping[str, int]:
        return {"key changes without a request": self.without}


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    if run.watched is None or not run.watched.windows:
        return Answer()
    ledger = run.ledger
    watched = set(run.watched.windows)
    if ledger is None or not watched & ledger.wire.recorded:
        return Answer(Figures(None))
    rows = ledger.rows
    cause = rows["cause"].astype(str).to_numpy(object)
    is_told = (rows["is_seen"] & rows["node"].isin(list(ledger.wire.recorded))).to_numpy(bool)
    without = np.flatnonzero(is_told & (cause == "none"))
    shown = rows.iloc[without[:_EXAMPLES]]
    columns = (shown[name].tolist() for name in ("node", "key", "what", "at_ns"))
    examples = tuple(Change(node, key, what, run.at_ms(at)) for node, key, what, at in zip(*columns, strict=True))
    missing = tuple(node for node in run.config.node_names if node in watched - ledger.wire.recorded)
    return Answer(Figures(int(is_told.sum()), len(without), missing, examples))
