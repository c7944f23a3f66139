"""Did a request change a key that another client owned?

The ledger (`harness.history.ledger`) says which client set a key, in which call, and which request changed it then.
A client owns a key from the request that set it, if that call granted it a section, until it asks to release it or is
gone, and as long as the key has not outlived its time, or its lease if the time is longer. A mark by which releases
leave a key free has no owner, nor has a key that a client set with a value that it had read. Meanwhile the request of
another client may

- not delete it, nor take the other client's member out of it (`harness.history.members`): a release, the end of a
  refused attempt, or background work that frees what is not its own;
- not prolong it: an extension counts a node that it does not hold. An attempt to acquire counts nothing then; but the
  key outlives a client that is gone;
- not set another value in its place, by an extension or an attempt that is granted, or by a plain SET at all. (A script
  of an attempt that is refused may keep the owner, and note who waits.)

It does not matter whether the request was late, or sent while no call of its client was under way. The tasks of one
process count as one client, because they may share a key; but none may delete the key of another one that is inside. An
extension may not change what another client's attempt has set, or a section has left behind, either.

Of a lock that lets several clients in, this holds for keys that are one section's alone (`harness.history.lock_keys`).
To prolong one while its client is inside does no harm; to prolong it then keeps a place for a client that is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from fencepost.history import process_of
from fencepost.text import listed, plural, printable
from harness.checkers.overlong_keys import is_overlong
from harness.explain.causes import Cause
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import change_told, how_sent
from harness.explain.words import lasting
from harness.figures import KeyFigures, Row
from harness.history.calls import GRANTS, NO_CALL
from harness.history.commands import SET
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import columns_of, grouped, known, rows_of, where, which
from harness.history.ledger import Change, Ledger
from harness.history.lock_keys import by_its_setter, keys_of_single_sections
from harness.history.members import Member, taken_members, takes_the_key
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

How = Literal["overwritten", "prolonged", "deleted", "removed"]
_HOW: Final[tuple[How, ...]] = ("overwritten", "prolonged", "deleted", "removed")
_DID: Final[Mapping[How, tuple[str, str]]] = {
    "overwritten": ("overwrote", "key"),
    "prolonged": ("prolonged", "key"),
    "deleted": ("deleted", "key"),
    "removed": ("removed", "member"),
}
_READS: Final = ("GET", "HGET", "HGETALL", "HMGET", "MGET", "GETEX")

_ROUNDED_NS: Final = 50_000_000
"""A time to live is read a little later than it is set."""


class Figures(KeyFigures, frozen=True):
    """`overwritten`, `prolonged`, `deleted`: keys of other clients, on single nodes, that requests changed so.
    `removed`: members of theirs that requests took out of a hash, a set or a list. `late`: how many of these requests
    arrived after their call had ended, or were sent in none."""

    overwritten: int
    prolonged: int
    deleted: int
    late: int = 0
    removed: int = 0

    def rows(self) -> Iterator[Row]:
        counts = {how: int(getattr(self, how)) for how in _HOW}
        if any(counts.values()):
            late = f"; {self.late:,} of these requests arrived after the call had ended" if self.late else ""
            yield Row("others", f"{_what_requests_did(counts)}{late}", order=85)


def _what_requests_did(counts: Mapping[How, int]) -> str:
    """`requests overwrote 28 keys and deleted 5 keys of other clients`."""
    did = [f"{did} {plural(counts[how], noun)}" for how, (did, noun) in _DID.items() if counts.get(how)]
    whose = "that belonged to" if counts.get("removed") else "of"
    return f"requests {listed(did)} {whose} other clients"


class Touched(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key of the client `of` on the `node` that a request of another client changed, by `at_ms`: its `command`, and
    in which `call` it was sent, or after which one (empty: before any). `is_late`: it arrived after that call had
    ended. `is_inside`: the client `of` had been granted a section, and had not left it; else the key was left of one,
    or of an attempt. `is_member`: the key held a member of `of`, and not only that."""

    how: How
    node: str
    key: str
    by: str
    of: str
    at_ms: float
    command: str = ""
    call: str = ""
    is_late: bool = False
    is_inside: bool = True
    is_member: bool = False


def check(run: Recorded) -> Answer:
    """No figures where it is not on record which request changed a key."""
    ledger = run.ledger
    if ledger is None or not len(ledger.rows):
        return Answer()
    single = keys_of_single_sections(run, ledger)
    keys = run.lock_keys | single
    found = dict(_touched(run, ledger, keys, single))
    for change, member in taken_members(run, ledger, keys):
        found.setdefault(change["row"], _taken(run, change, member))
    in_order = sorted(found, key=lambda row: found[row].at_ms)
    touched = [found[row] for row in in_order]
    only_kept = {row for row in found if _only_keeps(ledger.change(row), single)}
    number = {how: sum(one.how == how for one in touched) for how in _HOW}
    figures = Figures(**number, late=sum(one.is_late for one in touched))
    taken, kept = ([found[row] for row in in_order if (row in only_kept) == is_kept] for is_kept in (False, True))
    findings = (_finding(kind, some) for kind, some in ((ANOTHERS, taken), (ANOTHERS_PROLONGED, kept)) if some)
    return Answer(figures, tuple(findings))


def _touched(run: Recorded, ledger: Ledger, keys: Set[str], single: set[str]) -> Iterator[tuple[int, Touched]]:
    """By the row of the ledger. `single`: the keys that are one section's alone, of a lock that lets several in."""
    rows = ledger.rows
    # What a script sets anew for as long as it was to live is not prolonged.
    is_more = (rows["what"] != "prolonged") | (rows["until_ns"] - _ROUNDED_NS > rows["had_until_ns"])
    own = which(rows, is_more, rows["of"] >= 0, what=_HOW, is_seen=True, key=keys, cause="request")
    if not own.any():
        return
    holders = _KeyOwners(run, ledger, single)
    for number, row in zip(np.flatnonzero(own).tolist(), rows[own].to_dict("records"), strict=True):
        holder = holders.of(row)
        if holder is None:
            continue
        if _is_of_another_task(row, holder):
            yield number, _told(run, row, holder)
            continue
        if _is_of(row, holder) or not _is_wrong(row, holder):
            continue
        if not (holder.is_inside and row["what"] == "prolonged" and row["key"] in single):
            yield number, _told(run, row, holder)


class _Holder(msgspec.Struct, frozen=True):
    """Whose key it is. `is_inside`: it has been granted a section, and has not left it."""

    client: str
    task: str
    is_inside: bool


class _KeyOwners:
    """Who owned the keys, by the rows that set them."""

    def __init__(self, run: Recorded, ledger: Ledger, single: set[str]) -> None:
        rows, self._single = ledger.rows, single
        self._change, self._is_copy = ledger.change, ledger.is_copy
        self._calls, self._handed_over, self._marks = ledger.calls, ledger.handed_over, run.unowned.marks
        self._is_one_node, self._ttl_ns = run.config.nodes == 1, int(run.config.ttl_ms * 1e6)
        self._places, self._overlong = run.places, set[int]()
        if run.owners is not None:
            self._overlong = {
                held.event for held in run.owners.each if any(is_overlong(run, ttl) for ttl in held.ttls_ms)
            }
        released = run.calls("release")
        self._left = {tuple(of): at for *of, at in rows_of(released, "client", "life", "section", "complete_ns")}
        self._end, self._deadline = columns_of(run.sections, "end_ns", "deadline_min_ns")
        self._requested = known(run.sections["requested_ns"])[1].tolist()
        self._values = run.owners.values if not run.is_exclusive and run.owners is not None else None
        by_setter = by_its_setter(rows)
        extended = where(rows, by_setter, what="changed", f="extend", outcome="ok")
        self._extended: dict[int, list[int]] = grouped(rows_of(extended, "of", "from_client_ns"))
        self._shared = set(where(rows, ~by_setter, what="changed")["of"].tolist())

    def of(self, row: Any) -> _Holder | None:
        """Which client owned the key when this happened to it; None if none did, or that is not known."""
        is_mark = row["was"] in self._marks if isinstance(row["was"], str) else bool(self._marks)
        if row["of"] in self._shared or is_mark or self._is_copy(row["of"]):
            return None
        setter = {**self._change(row["of"])}
        if (call := self._handed_over.get(row["of"])) == NO_CALL:
            return None
        if call is not None:
            setter |= self._receiver(call)
        if setter["by"] != "client" or setter["task"] is None or setter["section"] < 0:
            return None
        section = self._places.get(self._of(setter))
        is_granted = section is not None and (
            setter["outcome"] == "ok" if setter["f"] in GRANTS else setter["f"] in ("extend", "held")
        )
        if call is None and section is not None and 0 <= setter["from_client_ns"] < self._requested[section]:
            is_granted = False  # an earlier round of the acquire had set it
        had_time = row["had_until_ns"] < FOREVER_NS and setter["event"] not in self._overlong
        is_single = self._values is None or row["key"] in self._single
        if section is not None and is_granted:
            is_kept = had_time or row["at_ns"] <= self._kept_until_ns(section, setter, row)
            is_own = is_single or row["was"] in (self._values or {}).get(section, ())
            if row["at_ns"] < self._end[section]:
                return _Holder(setter["client"], setter["task"], True) if is_kept and is_own else None
        is_left = (is_granted or setter["f"] == "acquire") and had_time and is_single
        if self._values is not None:
            # A request of a client that is inside may meet a release that is under way.
            is_left &= section is not None and row["since_ns"] > self._left.get(self._of(setter), 0)
        return _Holder(setter["client"], setter["task"], False) if is_left else None

    def _kept_until_ns(self, section: int, setter: dict[str, Any], row: Any) -> int:
        """Until when a key is surely kept that has no expiry, or one that does not tell when the lease is over. Its
        value may tell the time, and a node that missed the later extensions goes by the last one that it got. An
        extension that wrote the key anew found it there, also if the lease was over by then."""
        deadline, set_ns = int(self._deadline[section]), int(setter["from_client_ns"])
        if not self._is_one_node:
            return min(deadline, set_ns + self._ttl_ns)
        extended = [at for at in self._extended[row["of"]] if at < row["at_ns"]]
        extended += [set_ns] if setter["f"] == "extend" and setter["outcome"] == "ok" else []
        return max([deadline, *(at + self._ttl_ns for at in extended)])

    @staticmethod
    def _of(setter: dict[str, Any]) -> tuple[Any, ...]:
        return setter["task"], setter["life"], setter["section"]

    def _receiver(self, call: int) -> dict[str, Any]:
        """Whom the key was set for, by the call in which that client had asked for it."""
        task, life, section = self._calls.client[call], int(self._calls.life[call]), int(self._calls.section[call])
        names = {"client": process_of(task), "by": "client", "task": task, "life": life, "section": section}
        return names | {"f": self._calls.f[call], "outcome": self._calls.outcome[call]}


def _is_of(request: Any, holder: _Holder) -> bool:
    """Whether it is a request of the holder or of its process."""
    return bool(request["by"] != "client" or request["client"] == holder.client)


def _is_of_another_task(change: Any, holder: _Holder) -> bool:
    """Whether another task of the holder's process deleted the key while the holder was inside."""
    is_deletion = change["what"] == "deleted" and change["client"] == holder.client and holder.is_inside
    return bool(is_deletion and change["sender"] not in (None, holder.task))


def _is_wrong(change: Any, holder: _Holder) -> bool:
    """Whether no lock may do that to what the holder has."""
    how, f = change["what"], change["f"]
    extends = f in ("extend", "held") or (not change["is_in_call"] and f in GRANTS)
    if not holder.is_inside:
        return extends and how != "deleted"
    if how != "overwritten":
        return True
    return extends or (f in GRANTS and change["outcome"] == "ok") or change["command"] in SET


def _only_keeps(change: Any, single: set[str]) -> bool:
    """Whether an attempt or a release prolonged it, or an extension what no other section needs. What goes on after a
    grant, in the background, extends a lease."""
    tries = change["f"] == "acquire" and (change["is_in_call"] or change["outcome"] != "ok")
    return bool(change["what"] == "prolonged" and (tries or change["f"] == "release" or change["key"] in single))


def _taken(run: Recorded, change: Change, member: Member) -> Touched:
    how = change["what"] if takes_the_key(change) else "removed"
    told = _told(run, {**change, "what": how}, _Holder(member.client, member.task, True))
    return msgspec.structs.replace(told, is_member=True)


def _told(run: Recorded, row: Any, holder: _Holder) -> Touched:
    return Touched(
        row["what"],
        str(row["node"]),
        str(row["key"]),
        str(row["task"] or row["client"]),
        holder.task,
        run.at_ms(row["at_ns"]),
        row["command"] or "",
        row["f"] or "",
        0 <= row["complete_ns"] < row["to_node_ns"],
        holder.is_inside,
    )


def _finding(kind: FindingKind, touched: list[Touched]) -> Finding:
    """Its examples are first of what the requests did most."""
    counts = Counter(one.how for one in touched)
    most = counts.most_common(1)[0][0]
    nodes = listed(sorted({one.node for one in touched}))
    rule = (
        "a request may delete, prolong or replace only what still has its own client's value"
        if kind is ANOTHERS
        else "a key must not outlive its owner because other clients ask for the lock, or hold it"
    )
    text = f"{_what_requests_did(counts)}, on {nodes}: {rule}"
    typical_first = sorted(touched, key=lambda one: one.how != most)
    return kind.of(typical_first, text, msgspec.to_builtins, at_ms=touched[0].at_ms)


def _explained(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    of, node, by = case.texts("of", "node", "by")
    did = {
        "deleted": "deleted the key of",
        "prolonged": "prolonged the key of",
        "removed": "removed from a key the member of",
    }.get(str(example["how"]), "set another value over the key of")
    ledger = run.ledger
    change = None if ledger is None else change_told(run, ledger, example)
    how = f": {how_sent(run, change)}" if change is not None and change["cause"] == "request" else ""
    why = (
        f"The member of {of} was still in it, and its lease had not ended."
        if example.get("is_member") and example["how"] != "removed"
        else "The lock did not compare the value, or not in the same step."
    )
    cause: Cause = "deleted" if example["how"] == "removed" else example["how"]
    reason = None if ledger is None or change is None else _reason(ledger, change, by, of)
    if reason is not None:
        why, cause = reason.text, reason.cause or cause
    return Told(f"{by} {did} {of} on {node}, by {case.at()}{how}. {why}", cause=cause)


class _Why(NamedTuple):
    """`cause`: None if the change itself is all that there is to say."""

    text: str
    cause: Cause | None = None


def _reason(ledger: Ledger, change: Change, by: str, of: str) -> _Why | None:
    """How the request came to change the key of another; None if it had not compared its value."""
    value, is_ones = printable(str(change["was"])), process_of(by) == process_of(of)
    if change["what"] in ("deleted", "prolonged") and ledger.drew_it_too(change):
        shared = f"Both had drawn the same value, {value}."
        return _Why(shared, "another task's release" if is_ones else "shared value")
    if meant := _other_key(ledger, change):
        return _Why(f"It was the release of {printable(meant)}, and named another key.", "another key")
    if is_ones and ledger.sent.names_value(change):
        cause: Cause | None = "another task's release" if change["what"] == "deleted" else None
        return _Why(f"It named the value that {of} had set, {value}.", cause)
    if read_ns := _read_ns(ledger, change):
        since = lasting(int(change["from_client_ns"]) - read_ns)
        return _Why(f"It had read the key {since} before, with another request; since then the key had changed hands.")
    if ledger.sent.names_value(change):
        return _Why(f"It named the value that {of} had set, {value}.")
    return None


def _other_key(ledger: Ledger, change: Change) -> str:
    """The key that the release was for which made this change to another one; empty if that is not so."""
    if change["f"] != "release" or change["call"] == NO_CALL:
        return ""
    meant, named = str(ledger.calls.key[change["call"]]), str(change["key"])
    is_another = meant and meant not in ledger.calls.meant_by([named])[named]
    return meant if is_another else ""


def _read_ns(ledger: Ledger, change: Change) -> int:
    """When the same call had last asked for the key's value before it sent a request that compares nothing itself; 0 if
    it had not."""
    if change["call"] == NO_CALL or change["request"] < 0 or ledger.sent.compared(change):
        return 0
    client, since_ns = str(change["sender"] or change["client"]), int(ledger.calls.invoke_ns[change["call"]])
    asked = ledger.sent.between(client, str(change["node"]), since_ns, int(change["from_client_ns"]))
    return max((one.from_client_ns for one in asked if one.command in _READS and change["key"] in one.keys), default=0)


ANOTHERS: Final = FindingKind(
    "changed-another-clients-key",
    "lease",
    _explained,
    comes_of=("shared value", "set again", "another key"),
    noun="change(s) to other clients' keys",
    surveyed="extension",
)
ANOTHERS_PROLONGED: Final = FindingKind(
    "prolonged-another-clients-key",
    "liveness",
    _explained,
    stands_for="prolonged",
    noun="extension(s) of other clients' keys",
    surveyed="free",
)
