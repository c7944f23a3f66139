"""Entries that no client would come for, in words: of clients that were gone, or of calls that were over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from fencepost.text import printable
from harness.explain.causes import Cause, Reason
from harness.explain.requests import client_of, how_sent
from harness.history.dead_entries import DeadEntry, dead_entries
from harness.history.recorded import Recorded

_ENDED: Final[Mapping[str, tuple[str, Cause]]] = {
    "died_ms": ("was gone by", "dead entry"),
    "cancelled_ms": ("its user had cancelled that acquire by", "cancelled entry"),
    "gave_up_ms": ("its acquire had given up by", "entry of a refused call"),
    "over_ms": ("its lease had ended by", "dead entry"),
    "passed_ms": ("its turn had passed by", "turn passed"),
}
"""By what tells when an entry was dead: how it is said, and the cause."""
_LEFT: Final = {"cancelled": "cancelled_ms", "gave up": "gave_up_ms", "over": "over_ms"}


def kept_by_dead(run: Recorded, key: str, nodes: Collection[str], since_ns: int, until_ns: int) -> Reason | None:
    """The first entry that was there all this time on one of the nodes, and had been dead before; None without any."""
    ledger = run.whole_ledger
    own = dead_entries(run, ledger)[key] if ledger is not None else []
    there = [one for one in own if one.put["node"] in nodes and one.dead_ns <= since_ns and one.until_ns >= until_ns]
    return kept_out_by(entry_told(run, there[0], since_ns)) if there else None


def entry_told(run: Recorded, entry: DeadEntry, since_ns: int) -> dict[str, object]:
    """An entry that was dead by then, as data."""
    found: dict[str, object] = {name: str(entry.put[name]) for name in ("client", "node", "key", "did")}
    found |= {"at_ms": run.at_ms(entry.put["at_ns"])}
    if entry.ticket is not None:
        found |= {"drew": entry.ticket.number, "turn": entry.ticket.turn}
    if entry.ticket is not None and (by := entry.ticket.by) is not None:
        return found | {"passed_ms": run.at_ms(by["at_ns"]), "by": f"{client_of(by)}: {how_sent(run, by)}"}
    if entry.left is None or entry.died_ns <= since_ns:
        return found | {"died_ms": run.at_ms(entry.died_ns)}
    return found | {_LEFT[entry.left.how]: run.at_ms(entry.left.at_ns)}


def kept_out_by(entry: Mapping[str, object]) -> Reason:
    """The entry of a client that never came for it, or the number that was drawn instead of one."""
    of, where, put, node = (printable(str(entry[name])) for name in ("client", "key", "did", "node"))
    how = next(name for name in _ENDED if name in entry)
    ended, cause = _ENDED[how]
    at, by = (f"{float(str(entry[name])):+,.1f} ms" for name in ("at_ms", how))
    if "drew" not in entry:
        an_entry = f"an entry into {where} on {node}"
        if how == "died_ms" and float(str(entry["at_ms"])) > float(str(entry[how])):
            said = f"{of} {ended} {by}; at {at} its request put {an_entry} ({put})"
        else:
            said = f"{of} had put {an_entry} at {at} ({put}), {ended} {by}"
        return Reason(f"{said}, and no request took that entry out", cause)
    number, turn = f"drawn the number {entry['drew']} from {where} on {node} at {at}", printable(str(entry["turn"]))
    if "by" not in entry:
        return Reason(f"{of} had {number}, {ended} {by}, and no request raised {turn} to it", cause)
    raised = f"when {turn} was raised by {printable(str(entry['by']))}"
    return Reason(f"it had {number}, which had passed by {by}, {raised}", cause)
