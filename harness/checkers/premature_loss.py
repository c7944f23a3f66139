"""Did a holder find at its release that the lock was lost, within its validity?

A refused release says that the lock was no longer held. After the validity that is correct. Within it, if no fault can
have been in force since the acquire began (a node that lost its memory, a reply that was lost), another client took or
deleted the keys, or they expired too early. The holder itself finds this out, so it shows even if no other client
acquired the lock.

A lock may say so only because the nodes did not answer in time, on a machine that is too busy, say. So nothing was lost
if a majority of the nodes may still have held the section's value when the release was asked for, nor if the release
deleted the key itself there: it may have sent its request again. Where a request of the client's own process, such as
that of an extension, had deleted the key before, no other client is suspected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import printable
from harness.explain.causes import Cause
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import who_did
from harness.figures import CheckerFigures
from harness.history.commands import SCRIPTED
from harness.history.groups import columns_of, rows_of, where
from harness.history.key_changes import ENDINGS, SETS
from harness.history.ledger import Change
from harness.history.recorded import Recorded
from harness.verdict import Answer


class Figures(CheckerFigures, frozen=True):
    """`lost_early`: leases that were gone when they were released within their validity, without any fault. Shown as a
    finding."""

    lost_early: int


def check(run: Recorded) -> Answer:
    released = run.calls("release", "fail")
    if released.empty:
        return Answer(Figures(0))
    names = ["client", "life", "section"]
    held = run.sections[[*names, "asked_ns", "deadline_min_ns"]].astype({"client": str})
    both = released[[*names, "key", "invoke_ns", "complete_ns"]].astype({"client": str}).merge(held, on=names)
    both = both[both["complete_ns"] < both["deadline_min_ns"]]
    begun, done = columns_of(both, "asked_ns", "complete_ns")
    disturbed = np.zeros(len(both), np.bool_)
    for _, since, until in run.fault_windows:
        disturbed |= (since <= done) & (until >= begun)
    lost = both[~disturbed & ~_may_have_been_held(run, both)]
    lost = lost[[not _deleted_by_its_release(run, *of) for of in rows_of(lost, "client", "life", "section")]]
    figures = Figures(len(lost))
    if not len(lost):
        return Answer(figures)
    examples = tuple(
        {
            "client": row["client"],
            "life": int(row["life"]),
            "section": int(row["section"]),
            "key": str(row["key"]),
            "at_ms": run.at_ms(row["complete_ns"]),
            "validity_left_ms": (int(row["deadline_min_ns"]) - int(row["complete_ns"])) / 1e6,
        }
        for row in lost.sort_values("complete_ns").head(5).to_dict("records")
    )
    one = "lease was lost before its holder released it, within its validity"
    several = "leases were lost before their holders released them, within their validity"
    # Servers that copy each other change their roles long after a fault.
    change = "a failover lost the keys, " if run.one_serves and run.faults else ""
    taken = [(of[0], _taken(run, *of)) for of in rows_of(lost, "client", "life", "section", "complete_ns")]
    by_itself = [change for client, change in taken if change is not None and _is_own(change, client)]
    why = f"{change}another client deleted or took the keys, or they expired too early"
    if by_itself:
        its = f"its own {_request(by_itself[0])} deleted the key"
        why = its if len(by_itself) == len(taken) else f"for {len(by_itself):,} of them, {its}; else, {why}"
    text = f"{len(lost):,} {one if len(lost) == 1 else several}, although no fault was in force: {why}"
    return Answer(figures, (LOST_EARLY.found("lock", text, len(lost), examples),))


def _may_have_been_held(run: Recorded, released: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """For each release, whether a majority may have held the section's value when it was asked for. False where that is
    not on record."""
    backing, places = run.backing, run.places
    found = np.zeros(len(released), np.bool_)
    if backing is not None:
        for row, (*of, invoke_ns) in enumerate(rows_of(released, "client", "life", "section", "invoke_ns")):
            place = places[tuple(of)]
            if place in backing.owners.values:
                found[row] = backing.may_have_been_held(place, invoke_ns, invoke_ns)
    return found


class _Ends(NamedTuple):
    """`set_on`: on how many nodes calls for the section had set a key, or taken one over; `used`: on how many any
    client ever did. `by_request`: where a request deleted the last such key, or set another value over it, by node."""

    set_on: int = 0
    used: int = 0
    by_request: Sequence[Change] = ()


def _ends(run: Recorded, client: str, life: int, section: int) -> _Ends:
    ledger = run.ledger
    if ledger is None:
        return _Ends()
    rows = where(ledger.rows, key=run.lock_keys)
    its = {"task": client, "life": life, "section": section, "f": "acquire", "outcome": "ok"}
    last = where(rows, **its, what=(*SETS, "prolonged")).groupby("node", observed=True).tail(1)
    begun = last["of"].where(last["what"] == "prolonged", last.index)
    ends = where(rows, what=ENDINGS, of=begun.tolist())
    changes = [ledger.change(int(row)) for row in ends.index]
    by_request = [one for one in changes if one["what"] in _TAKES and one["cause"] == "request"]
    return _Ends(len(last), rows["node"].nunique(), by_request)


def _deleted_by_its_release(run: Recorded, client: str, life: int, section: int) -> bool:
    """Whether the release that was refused had deleted the key itself on a majority of the nodes that it was set on."""
    set_on, _, ends = _ends(run, client, life, section)
    return bool(set_on) and sum(_is_by_release(one, client, section) for one in ends) >= quorum(set_on)


def _taken(run: Recorded, client: str, life: int, section: int, released_ns: int) -> Change | None:
    """The last request that ended one of its keys before that release was over, if such requests left it on less than a
    majority of the nodes; None if they did not, or if that is not on record."""
    set_on, used, ends = _ends(run, client, life, section)
    earlier = [one for one in ends if one["at_ns"] <= released_ns and not _is_by_release(one, client, section)]
    if not earlier or set_on - len(earlier) >= quorum(used):
        return None
    return max(earlier, key=lambda one: int(one["at_ns"]))


def _is_by_release(end: Change, client: str, section: int) -> bool:
    is_its_call = end["task"] == client and end["f"] == "release" and end["section"] == section
    return bool(is_its_call and end["what"] == "deleted" and end["is_in_call"])


def _is_own(change: Change, client: str) -> bool:
    """Whether the client's own process deleted the key."""
    return bool(change["client"] == process_of(client) and change["what"] == "deleted")


def _request(change: Change) -> str:
    return "script" if change["command"] in SCRIPTED else "request"


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client = str(example["client"])
    change = _taken(run, client, int(example["life"]), int(example["section"]), run.at_ns(example["at_ms"]))
    if change is None:
        return Told(f"{printable(case.finding.text).rstrip('.')}.")
    cause = "deleted by itself" if _is_own(change, client) else _TAKES[change["what"]]
    if cause == "deleted by itself" and change["f"] == "release" and change["task"] not in (None, client):
        cause = "another task's release"
    did = "deleted the key" if change["what"] == "deleted" else "set another value over the key"
    return Told(
        f"The release of {case.text('client')} said at {case.at()}, {case.lasting('validity_left_ms')} before the "
        f"lease was over, that the lock was no longer held: {who_did(run, change, client, did)}.",
        cause=cause,
    )


_TAKES: Final[dict[str, Cause]] = {"deleted": "deleted", "overwritten": "overwritten"}


LOST_EARLY: Final = FindingKind(
    "lease-lost-early",
    "lease",
    _told,
    comes_of=(
        *("deleted", "deleted by itself", "another task's release", "shared value"),
        *("overwritten", "expired", "too few nodes", "granted when refused"),
    ),
    noun="lease(s) lost early",
)
