"""Which keys on the nodes are the lock itself, and not what it keeps besides: queues, counters, who was seen last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.history.ledger import Ledger

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


def lock_keys(run: Recorded, ledger: Ledger) -> set[str]:
    """The names on the nodes of the keys that clients ask for: their own names; the ones that acquires set and releases
    delete; or the only one that acquires set, if it has the name in it."""
    asked = {str(key) for key in run.ops["key"].unique()}
    rows = ledger.rows
    found = asked & set(rows["key"].cat.categories)
    if run.owners is not None:
        found |= set(run.owners.holdings["key"].astype(str).unique())
    if not found:
        is_set = rows["what"].isin(["set", "overwritten"]) & (rows["f"] == "acquire") & rows["value"].notna()
        names = {str(key) for key in rows["key"][is_set].unique()}
        for key in asked:
            some = [name for name in names if key in name]
            found |= set(some) if len(some) == 1 else set()
    return found
