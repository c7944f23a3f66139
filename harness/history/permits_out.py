"""A count of permits that stayed full while no client was inside: by requests of calls that were over.

Acquires raise such a count and releases lower it, or the other way round. A client that was killed, or a call that its
user cancelled, leaves it raised. It may have a time to live: what expires, or is deleted, begins anew. Here only the
state during one time counts, in which no client got in: who had taken what was out then. It is known only where each
request that gave something back was of a client that had taken something, and the value is the one that these requests
add up to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.quorum import quorum
from harness.history.commands import COUNT, RAISE, RENEW
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where
from harness.history.key_changes import ENDINGS
from harness.history.never_given_back import NEARLY_ALL, opposites

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

_COUNT: Final = ("INCR", "DECR")
_FILLS: Final = "SET"
_KEEP: Final = (*RENEW, "PERSIST", None)


class Out(NamedTuple):
    """`taken`: the change that took the permit. `how`: how its client came to keep it."""

    taken: Change
    how: str


class PermitsOut(NamedTuple):
    """`key`: on the nodes. `nodes`: those where all permits were out. `permits`: on the first of them, in the order in
    which they were taken."""

    key: str
    nodes: tuple[str, ...]
    permits: tuple[Out, ...]


def permits_out(run: Recorded, since_ns: int, until_ns: int, key: str | None = None) -> PermitsOut | None:
    """The count that was full all that time by what calls had taken that were over when it began; None if there is no
    such count, or that is not known. `key`: that clients ask for; None for any."""
    ledger = run.whole_ledger
    if ledger is None or run.group is not None or run.config.replication != "none":
        return None
    rows = where(ledger.rows, ledger.rows["at_ns"] <= until_ns)
    for name, own in rows.groupby("key", observed=True):
        if key is not None and ledger.calls.meant_by([str(name)])[str(name)] != [key]:
            continue
        if (pair := _counted(ledger, where(ledger.rows, key=name))) is None:
            continue
        full = {
            str(node): found
            for node, on_node in own.groupby("node", observed=True)
            if len(found := _out(run, ledger, on_node, pair, since_ns)) >= run.permits
        }
        # So many that the others are no majority.
        if full and len(run.nodes) - len(full) < quorum(len(run.nodes)):
            nodes = tuple(node for node in run.nodes if node in full)
            return PermitsOut(str(name), nodes, tuple(full[nodes[0]]))
    return None


def _counted(ledger: Ledger, own: pd.DataFrame) -> tuple[str, str] | None:
    """The commands by which acquires take from the count, and releases give back; None unless nearly every granted
    acquire that changed anything took of it, for one key of the lock. `own`: all changes of the key."""
    pair = opposites(own)
    if pair is None or not set(pair) <= set(COUNT) or (pair[0] in RAISE) == (pair[1] in RAISE):
        return None
    granted, of_key = _granted(ledger.rows), _granted(own)
    took = set(where(of_key, did=pair[0])["call"].tolist())
    keys = {str(ledger.calls.key[call]) for call in took}
    if len(keys) != 1:
        return None
    every = {call for call in set(granted["call"].tolist()) if str(ledger.calls.key[call]) in keys}
    return pair if len(took) >= NEARLY_ALL * len(every) else None


def _granted(rows: pd.DataFrame) -> pd.DataFrame:
    """The changes by acquires that were granted."""
    return where(rows, is_in_call=True, f="acquire", outcome="ok")


def _out(run: Recorded, ledger: Ledger, own: pd.DataFrame, pair: tuple[str, str], since_ns: int) -> list[Out]:
    """What was out of one node's count all that time, of calls that were over. `own`: the changes until it ended."""
    value = _number(own["value"].iloc[-1])
    left = _left(own, pair)
    if value is None or (value != len(left) if pair[0] in RAISE else value > 0):
        return []
    return _all_over(run, [change for row in left if (change := ledger.change(row))["at_ns"] <= since_ns], since_ns)


def raised_by_gone(run: Recorded, ledger: Ledger, raised: Change) -> list[Out]:
    """What was left of a count when this change raised it, if all of it was of calls that were over; else nothing."""
    rows, row, was = ledger.rows, int(raised["row"]), _number(raised["was"])
    left = _left(where(rows, rows.index < row, node=raised["node"], key=raised["key"]), _COUNT)
    return _all_over(run, list(map(ledger.change, left)), int(raised["since_ns"])) if was == len(left) else []


def _number(value: object) -> int | None:
    return int(str(value)) if value is not None and str(value).removeprefix("-").isdecimal() else None


def _all_over(run: Recorded, changes: Sequence[Change], by_ns: int) -> list[Out]:
    over = list(_over(run, changes, by_ns))
    return over if len(over) == len(changes) else []


def _left(own: pd.DataFrame, pair: tuple[str, str]) -> list[int]:
    """The changes that took a permit which no later one gave back; none if it is not known whose were given back."""
    take, give = pair
    taken, is_known = list[tuple[int, tuple[str | None, ...]]](), True
    columns = rows_of(own, "what", "did", "is_seen", "client", "task")
    for row, (what, did, is_seen, *who) in zip(own.index.tolist(), columns, strict=True):
        if what in ENDINGS or did == _FILLS:
            taken, is_known = [], True
        elif not is_seen or did not in (*pair, *_KEEP):
            is_known = False
        if what in ENDINGS or did not in pair:
            continue
        if did == take:
            taken.append((row, tuple(who)))
        elif did == give:
            own_takes = [one for one in taken if one[1] == tuple(who)]
            is_known &= bool(own_takes)
            taken = [one for one in taken if one not in own_takes[-1:]]
    return [row for row, _ in taken] if is_known else []


def _over(run: Recorded, changes: Sequence[Change], by_ns: int) -> Iterator[Out]:
    """Those of calls, or sections, that were over by then."""
    ops, ends = _Ops.of(run), {(end.client, end.life): (end.how, end.at_ns) for end in run.ends}
    sections = list(rows_of(run.sections, "client", "life", "section", "end_ns"))
    left_ns = {(client, life, section): end_ns for client, life, section, end_ns in sections}
    for change in changes:
        if change["f"] != "acquire" or not change["is_in_call"] or change["task"] is None:
            continue
        whose = change["task"], change["life"], change["section"]
        is_granted = change["outcome"] == "ok"
        over_ns = left_ns.get(whose, FOREVER_NS) if is_granted else change["complete_ns"]
        ended, ended_ns = ends.get(whose[:2], ("", FOREVER_NS))
        if over_ns <= by_ns:
            is_gone = ended in _GONE and ended_ns <= by_ns
            if how := ops.how(change, ended if is_gone else ""):
                yield Out(change, how)


class _Ops(NamedTuple):
    """`acquires`: by task, life and when it began, how it ended, and whether its user had cancelled it. `releases`: the
    same by task, life and section."""

    acquires: dict[tuple[object, ...], tuple[str, bool]]
    releases: dict[tuple[object, ...], tuple[str, bool]]

    @classmethod
    def of(cls, run: Recorded) -> _Ops:
        found: list[dict[tuple[object, ...], tuple[str, bool]]] = []
        for f, name in (("acquire", "invoke_ns"), ("release", "section")):
            own = rows_of(run.calls(f), "client", "life", name, "outcome", "cancelled")
            found.append({(str(client), life, at): (str(outcome), bool(cut)) for client, life, at, outcome, cut in own})
        return cls(*found)

    def how(self, change: Change, ended: str) -> str:
        """`its user had cancelled the release`. `ended`: how its client ended, if that was gone."""
        whose = change["task"], change["life"]
        if change["outcome"] != "ok":
            outcome, is_cancelled = self.acquires.get((*whose, change["invoke_ns"]), ("", False))
            return "its user had cancelled that call" if is_cancelled else _REFUSED.get(outcome, _ENDED.get(ended, ""))
        outcome, is_cancelled = self.releases.get((*whose, change["section"]), ("", False))
        if is_cancelled:
            return "it was let in, and its user cancelled the release"
        return f"it was let in, and {_RELEASED.get(outcome, _ENDED.get(ended, 'its release is not on record'))}"


_GONE: Final = ("killed", "died")
_ENDED: Final = {"killed": "the client was killed", "died": "the client died"}
_REFUSED: Final = {"fail": "that call was refused", "info": "that call ended with an error"}
_RELEASED: Final = {
    "ok": "its release gave back nothing",
    "fail": "its release said that it did not hold the lock",
    "info": "its release ended with an error",
}
