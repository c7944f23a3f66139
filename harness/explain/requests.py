"""The request that changed a key, in words: which client sent what to which node, in which of its calls, when it
arrived, and what the node answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.words import at, lasting
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded

_CALLS: Final = {
    "acquire": "acquire",
    "extend": "extension",
    "release": "release",
    "held": "check whether it still holds the lock",
    "reenter": "nested acquire",
    "leave": "nested release",
}
_LONG_NS: Final = 1_000_000
"""A request that takes longer to the node than this was held up on its way."""
_ANSWER: Final = 60
_ROUNDED_NS: Final = 1_000


def changes_where(ledger: Ledger, rows: pd.Series[bool]) -> list[Change]:
    """The changes in these rows, in the order of the ledger."""
    return list(map(ledger.change, np.flatnonzero(rows.to_numpy(bool)).tolist()))


def client_of(change: Change) -> str | None:
    """Whose request it was: its client's, or that of its task; None, if that is not on record."""
    who = change["task"] or change["client"]
    return None if who is None else printable(str(who))


def may_be_of(change: Change, owner: str) -> bool:
    """Whether it was the owner's request, or one of its process by a task that is not on record."""
    return bool(change["task"] == owner or (change["task"] is None and change["client"] == process_of(owner)))


def who_did(run: Recorded, change: Change, owner: str, did: str) -> str:
    """`c5, which did not own the key, deleted it: in its release it sent DEL to n1 at +600.0 ms, where it arrived at
    +650.0 ms, after that release had ended; the node answered 1`. `did`: `deleted it`. `owner`: whose key it was."""
    client = client_of(change)
    if change["by"] == "harness":
        return f"a probe of {client}'s link {did}"
    if client is None:
        is_unmade = change["cause"] == "none"  # by any request, all of which are on record
        return f"{'something other than a recorded request' if is_unmade else 'a request that was not recorded'} {did}"
    named = f"{client} itself" if client == owner else f"{client}, which did not own the key,"
    if client != owner and may_be_of(change, owner):
        named = f"{client}, by one of its tasks (which of them is not on record),"
    return f"{named} {did}" if change["request"] < 0 else f"{named} {did}: {how_sent(run, change)}"


def how_sent(run: Recorded, change: Change) -> str:
    """`in its release it sent DEL to n1 at +600.0 ms, and the node answered 1`. Where several calls were under way, it
    may be of any of them. Of a connection that carried more requests than are on record, its client is all that is
    known."""
    if change["request"] < 0:
        return f"which request to {printable(str(change['node']))} did it is not on record"
    sent_ns, arrived_ns, ended_ns = (int(change[name]) for name in ("from_client_ns", "to_node_ns", "complete_ns"))
    node, command = printable(str(change["node"])), printable(str(change["command"]))
    call = _CALLS.get(change["f"] or "", "")
    when = f"it sent {command} to {node} at {at(run, sent_ns)}"
    if not call:
        text = when if change["is_in_call"] else f"outside any call {when}"
    elif change["is_in_call"]:
        # A lock that renews by itself goes on with that while it is asked.
        text = f"{'during' if change['f'] == 'held' else 'in'} its {call} {when}"
    else:
        text = f"{lasting(sent_ns - ended_ns)} after its {call} had ended {when}"
    is_late = bool(call) and change["is_in_call"] and arrived_ns > ended_ns
    if is_late or arrived_ns - sent_ns > _LONG_NS:
        text += f", where it arrived at {at(run, arrived_ns)}"
        text += f", after that {call} had ended" if is_late else ""
    if change["reply"] is None:
        return f"{text}; the node's answer never came"
    reply = printable(str(change["reply"])[:_ANSWER])
    lost = "" if change["to_client_ns"] >= 0 else ", which the client never learnt"
    return f"{text}; the node answered {reply}{lost}"


def change_told(run: Recorded, ledger: Ledger, example: Mapping[str, Any]) -> Change | None:
    """The change of the key that this example tells of."""
    rows = ledger.rows
    at_ns = run.at_ns(example["at_ms"])
    near = (rows["at_ns"] - at_ns).abs().to_numpy() <= _ROUNDED_NS
    hows = ("changed", "deleted") if example["how"] == "removed" else (example["how"],)
    own = near & rows["what"].isin(hows).to_numpy(bool) & (rows["node"] == example["node"]).to_numpy(bool)
    own &= (rows["key"] == example["key"]).to_numpy(bool)
    # The witness may have seen several at once.
    own &= (rows["task"].where(rows["task"].notna(), rows["client"]) == example["by"]).to_numpy(bool)
    found = np.flatnonzero(own)
    return ledger.change(int(found[0])) if len(found) == 1 else None
