"""Fields of a hash that granted acquires set, and that are still there, without a time to live, when their client has
left: so a lock looks that keeps a field for each of its keys in one hash, and whose client died."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from fencepost.history import FIELDS_APART
from harness.history.entries import ADD_FIELDS
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import places_of, rows_of

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded


class LeftField(NamedTuple):
    """`set_by`: the change by which the acquire of a section set it. `asked`: how many requests of other clients named
    it since."""

    name: str
    set_by: Change
    asked: int


def left_field(run: Recorded, by_ns: int) -> LeftField | None:
    """That for which most requests asked in vain; None if none was left by then."""
    ledger = run.ledger
    if ledger is None or run.watched is None:
        return None
    places, end_ns = places_of(run.sections), run.sections["end_ns"].to_numpy(np.int64)
    found = []
    for node, key, value in rows_of(_hashes(run.watched.holdings, by_ns), "node", "key", "value"):
        fields = set(str(value).split(FIELDS_APART))
        for name, row in _last_set(ledger, str(node), str(key)).items():
            change = ledger.change(row)
            section = places.get((change["task"], change["life"], change["section"]))
            if name not in fields or section is None or end_ns[section] > by_ns:
                continue
            asked = ledger.sent.of_others(str(change["client"]), str(node), str(key), int(change["at_ns"]))
            found.append(LeftField(name, change, sum(name in words for words in asked)))
    return max((one for one in found if one.asked), key=lambda one: one.asked, default=None)


def _hashes(holdings: pd.DataFrame, by_ns: int) -> pd.DataFrame:
    """What hashes without a time to live held then and to the end."""
    lasts = holdings["is_hash"] & (holdings["to_min_ns"] > by_ns) & (holdings["from_max_ns"] <= by_ns)
    return holdings[(lasts & (holdings["expires_ns"] >= FOREVER_NS) & holdings["value"].notna()).to_numpy(bool)]


def _last_set(ledger: Ledger, node: str, key: str) -> dict[str, int]:
    """By field, the row of the last granted acquire that set it."""
    rows = ledger.rows
    is_its = (rows["node"] == node) & (rows["key"] == key) & rows["did"].isin(ADD_FIELDS)
    is_its &= (rows["f"] == "acquire") & (rows["outcome"] == "ok") & rows["is_in_call"]
    own = rows[is_its.to_numpy(bool)]
    said = zip(own.index.tolist(), ledger.arguments(own), strict=True)
    return {name: row for row, words in said for name in (words or ())[1::2]}
