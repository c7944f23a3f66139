"""Which keys on the nodes are the lock itself, as opposed to its bookkeeping: queues, counters, the client seen
last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from harness.history.calls import GRANTS
from harness.history.commands import ADD
from harness.history.groups import rows_of, where, which
from harness.history.key_changes import SETS
from harness.history.ledger import Ledger

if TYPE_CHECKING:
    from harness.history.key_owners import Owners
    from harness.history.run_tables import RunTables
    from harness.history.unowned import Unowned

_NEARLY_ALL: Final = 0.9


def lock_keys(run: RunTables, ledger: Ledger, owners: Owners | None, unowned: Unowned) -> frozenset[str]:
    """The names on the nodes of the keys that clients ask for: their own names; the ones that acquires set and releases
    delete; or the only one that acquires set, if it has the name in it."""
    asked = {str(key) for key in run.ops["key"].unique()}
    rows = ledger.rows
    found = asked & set(rows["key"].cat.categories)
    if owners is not None:
        found |= set(owners.holdings["key"].astype(str).unique())
    if not found:
        names = {str(key) for key in where(rows, rows["value"].notna(), what=SETS, f="acquire")["key"].unique()}
        names -= set() if owners is None else owners.copies
        for key in asked:
            some = [name for name in names if key in name]
            found |= set(some) if len(some) == 1 else set()
    return frozenset(found - unowned.counters)


def keys_of_single_sections(run: RunTables, ledger: Ledger) -> set[str]:
    """Of a lock that lets several clients in, the names on the nodes of the keys that are each one section's alone: a
    slot, or what a reader sets for itself. A granted acquire sets one of them where it was free, as nearly all do that
    may share, no acquire and no other client changes one or sets it anew, and it is mostly releases that delete
    them."""
    if run.is_exclusive:
        return set()
    rows, asked = ledger.rows, [str(key) for key in run.ops["key"].unique()]
    is_set = which(rows, rows["section"] >= 0, f=GRANTS, outcome="ok", is_in_call=True, what="set")
    names = {str(key) for key in rows["key"][is_set].unique() if any(name in str(key) for name in asked)}
    # A client that extends its lease may write its key anew.
    is_extension = by_its_setter(rows) & ~which(rows, f=GRANTS, is_in_call=True)
    changes = where(rows, ~is_extension, what=("changed", "overwritten"), is_seen=True)
    names -= set(changes["key"].astype(str).unique())
    sections = run.sections
    may_share = int((sections["shared"] == 1).sum()) if "shared" in sections else len(sections)
    # Beside them, one that clients share may never have been changed while it was there.
    for some in (names, names.difference(asked)):
        each = where(rows, is_set, key=some).groupby(["task", "life", "section"], observed=True)["key"].nunique()
        deleted = where(rows, key=some, what="deleted")["f"]
        is_one_each = len(each) >= _NEARLY_ALL * may_share and not (each > 1).any()
        if is_one_each and 2 * int((deleted == "release").sum()) > len(deleted):
            return some
    return set()


def keys_of_single_holders(run: RunTables, ledger: Ledger, key: str) -> set[str]:
    """Of a lock that lets one client in, the names on the nodes of the keys that are there while a client holds `key`,
    whatever their type: nearly all granted acquires set them where they were free, and hardly any added to them."""
    if not run.is_exclusive:
        return set()
    granted = {*rows_of(run.calls("acquire", "ok", key), "client", "life", "section")}
    rows = where(ledger.rows, ~ledger.rows["f"].isin(["extend", "held"]))
    found = set()
    for name in {str(each) for each in rows["key"].unique() if key in str(each)}:
        own = where(rows, key=name)
        sets = where(own, what="set", f="acquire", is_in_call=True, outcome="ok")
        sections = granted.intersection(rows_of(sets, "task", "life", "section"))
        added = len(where(own, what="changed", did=ADD))
        if sections and len(sections) >= _NEARLY_ALL * len(granted) and added <= (1 - _NEARLY_ALL) * len(granted):
            found.add(name)
    return found


def by_its_setter(rows: pd.DataFrame) -> Any:
    """Whether the request of each change came from the client that had set the key."""
    client, of = rows["client"].to_numpy(object), rows["of"].to_numpy(np.int64)
    return (of >= 0) & (client == client[np.maximum(of, 0)])
