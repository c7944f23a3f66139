"""How long a key lived in which a lock for several clients keeps their places: a counter, hash, set or list.

Such a key is told by what requests do to it: acquires that are granted add to it and take nothing out, and releases
take out. A request that takes out what it had added itself was refused, and does neither. A section's place is gone
when the key expires that its acquire had added to, unless its release had taken it out before that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pandas as pd

from fencepost.quorum import quorum
from harness.history.calls import GRANTS
from harness.history.commands import ADD, DELETE, LOWER, RAISE, REMOVE
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where
from harness.history.key_changes import ENDINGS
from harness.history.ledger import Ledger

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

_PUT: Final = (*ADD, *RAISE)
_TAKE: Final = (*REMOVE, *LOWER, *DELETE)


class Place(NamedTuple):
    """`section`: the row in `sections`. `until_ns`: by then the key had expired on so many nodes that no majority still
    held it; forever if it had not. `left_ns`: when its release took something out; forever if it did not."""

    section: int
    key: str
    until_ns: int
    left_ns: int


def places_in_keys(run: Recorded, ledger: Ledger) -> Iterator[Place]:
    """Those of the sections that were granted them, in the order of the acquires' changes. Not where the clock of a
    node was wrong."""
    if run.is_exclusive:
        return
    rows = _lasting(ledger.rows)
    did = rows["did"].astype(str).str.upper()
    granted = {"f": GRANTS, "outcome": "ok", "is_in_call": True, "is_seen": True}
    puts = where(rows, did.isin(_PUT), **granted, what=("set", "changed"))
    takes = where(rows, did.isin(_TAKE), f="release")
    keys = _keys(puts, takes) - set(where(rows, did.isin(_TAKE), **granted)["key"])
    places = run.places
    ends = rows_of(where(ledger.rows, what=ENDINGS), "of", "what", "at_ns")
    ended = {of: (what, at_ns) for of, what, at_ns in ends}
    taken = set(rows_of(takes, "of", "task", "life", "section"))
    left = {tuple(of): at_ns for *of, at_ns in rows_of(takes, "key", "task", "life", "section", "at_ns")}
    of_section: defaultdict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for key, node, owner, *of in rows_of(puts, "key", "node", "owner", "task", "life", "section"):
        if str(key) in keys and (section := places.get(tuple(of))) is not None:
            what, at_ns = ended.get(owner, ("", FOREVER_NS))
            is_gone = what == "expired" and (owner, *of) not in taken
            of_section[section, str(key)][str(node)] = at_ns if is_gone else FOREVER_NS
    asked, names = run.sections["asked_ns"].tolist(), list(places)
    for (section, key), on in of_section.items():
        until_ns = sorted(on.values())[len(on) - quorum(len(on))]
        if not any(run.wrong_clocks.touch(node, asked[section], until_ns) for node in on):
            yield Place(section, key, until_ns, left.get((key, *names[section]), FOREVER_NS))


def _lasting(rows: pd.DataFrame) -> pd.DataFrame:
    """The changes, without those of requests that undid themselves. A release may lower a count and then delete it."""
    did = rows["did"].astype(str).str.upper()
    adds = did.isin(_PUT).astype(int) - did.isin(_TAKE).astype(int)
    left = adds.groupby([rows["request"], rows["key"]], observed=True).transform("sum")
    is_lasting = (rows["request"] < 0) | (adds == 0) | (left != 0) | (rows["f"] == "release")
    return where(rows, is_lasting)


def _keys(puts: pd.DataFrame, takes: pd.DataFrame) -> set[str]:
    """Those which most sections that add to them take out of again."""
    of = ["key", "task", "life", "section"]
    added, removed = (some[of].drop_duplicates()["key"].astype(str).value_counts() for some in (puts, takes))
    return {str(key) for key, number in added.items() if number > 1 and 2 * removed.get(key, 0) > number}
