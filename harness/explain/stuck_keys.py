"""Why keys that no client owned stayed on the nodes, while clients tried for the lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from fencepost.history import process_of
from fencepost.text import plural
from harness.explain.causes import Reason
from harness.explain.dead_entry import kept_by_dead
from harness.explain.given_to_ended import given_to_ended
from harness.explain.lanes import names_on_nodes
from harness.explain.requests import changes_where, client_of, how_sent
from harness.history.fault_windows import FOREVER_NS
from harness.history.ledger import Change
from harness.history.recorded import Recorded
from harness.history.without_expiry import has_no_expiry

LEAST_RENEWALS: Final = 2
"""A single one may have been under way when its client was done with the key."""


def why_stuck(run: Recorded, key: str, nodes: Collection[str], since_ns: int, until_ns: int) -> Reason | None:
    """`c5 went on prolonging it, 12 times, although no client was inside; last, in the background it sent …`. For keys
    on these nodes, in a time in which no client was inside; None if the record does not show why."""
    if given := given_to_ended(run, key, nodes, since_ns, until_ns):
        return Reason(given, "given to ended call")
    if renewed := _renewed(run, key, nodes, since_ns, until_ns):
        return renewed
    if _had_no_expiry(run, key, nodes, since_ns, until_ns):
        return Reason("the last request that set or prolonged them gave them no expiry", "no expiry")
    return kept_by_dead(run, key, nodes, since_ns, until_ns)


def _renewed(run: Recorded, key: str, nodes: Collection[str], since_ns: int, until_ns: int) -> Reason | None:
    """Whether requests prolonged it on one of the nodes, again and again."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    own = rows["key"].isin(list(names_on_nodes(run, key))) & rows["node"].isin(list(nodes))
    own &= (rows["what"] == "prolonged") & (rows["cause"] == "request") & (rows["by"] == "client")
    changes = changes_where(run.ledger, own & rows["at_ns"].between(since_ns, until_ns))
    by_whom = Counter((str(change["node"]), str(client_of(change))) for change in changes)
    if not by_whom or (most := by_whom.most_common(1)[0])[1] < LEAST_RENEWALS:
        return None
    (node, client), times = most
    last = [change for change in changes if (change["node"], client_of(change)) == (node, client)][-1]
    setter = _setter(run, last)
    is_own = setter is None or process_of(setter) == process_of(client)
    text = (
        f"{client} went on prolonging {'its own key' if is_own else f'the key of {setter}'}, {plural(times, 'time')}, "
        f"although no client was inside; last, {how_sent(run, last)}"
    )
    return Reason(text, "renewed unheld" if is_own else "prolonged")


def _setter(run: Recorded, change: Change) -> str | None:
    """The client that set the key; None if that is not known."""
    assert run.ledger is not None
    return client_of(run.ledger.change(int(change["owner"]))) if change["owner"] >= 0 else None


def _had_no_expiry(run: Recorded, key: str, nodes: Collection[str], since_ns: int, until_ns: int) -> bool:
    """Whether most of them had no time to live, although keys of the lock have one."""
    owners = run.owners
    if owners is None or has_no_expiry(owners):
        return False
    endless = {
        held.node
        for held in owners.each
        if held.lock_key == key and held.expires_ns >= FOREVER_NS and held.ttls_ms and held.ttls_ms[-1] is None
        if held.from_max_ns < until_ns and held.to_min_ns > since_ns
    }
    return 2 * len(endless.intersection(nodes)) > len(nodes)
