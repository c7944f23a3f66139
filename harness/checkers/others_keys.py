"""Did a request change a key that somebody else owned?

An extension prolongs the client's own keys. A lock that does not compare, or compares too early, prolongs or overwrites
the key of whoever got it in the meantime, and counts that node as its own. The witness sees both:

- *overwritten*: while the extension was under way, or may have been, the value of another section or attempt was
  replaced by that of the section which was extended. Its acquire had been answered by then, and what of it was still on
  its way sets only keys that are free;
- *prolonged*: meanwhile another client's key was given more time, though that client had not yet asked for an
  extension, or had only tried to acquire. Nothing is said while a fault may have held up requests of that client, nor
  of locks that renew by themselves: those that prolonged a key when nobody had asked for an extension.

Nobody prolongs what an attempt has set, so no fault can have held that up. Two kinds of locks do all the same, and
their attempts prove nothing: those that set a key first and its time to live later, and those that try again with the
same value, and prolong what they find.

If the acquires of a lock are seen to replace values (it sets a key in two steps, say, or takes over what it thinks is
over), what is still on its way may do so, too, and an attempt's value may be the section's own. So may one that was set
in place of another, or, if extensions exchange values, since the section asked for one.

And no request of any kind may delete what somebody else holds. A key is *deleted* by others if its owner had asked for
nothing since it was let in, and what it had asked for before must have arrived, and others were asking for something.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, Literal, NamedTuple

import numpy as np

from fencepost.text import listed, plural
from harness.figures import KeyFigures, Row
from harness.history.fault_windows import FOREVER_NS, hits_link, longest_windows
from harness.history.key_owners import Owners, calls_by_client, places_of, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

ARRIVES_WITHIN_NS: Final = 250_000_000
"""What was asked for may arrive so long after the answer."""

How = Literal["overwritten", "prolonged", "deleted"]
_WHAT: Final = {"extend": "extension", "release": "release", "acquire": "attempt"}


class Figures(KeyFigures, frozen=True):
    """`extensions`: those that were asked for. `overwritten`, `prolonged`: keys of others, on single nodes, that they
    changed; `deleted`: those that any request deleted."""

    extensions: int
    overwritten: int
    prolonged: int
    deleted: int = 0

    def rows(self) -> Iterator[Row]:
        counts = {"overwrote": self.overwritten, "prolonged": self.prolonged}
        done = " and ".join(f"{how} {plural(number, 'key')}" for how, number in counts.items() if number)
        if done:
            yield Row("extended", f"extensions {done} of other clients", order=85)
        if self.deleted:
            yield Row("deleted", f"requests deleted {plural(self.deleted, 'key')} of other clients", order=85)


class _Request(NamedTuple):
    """What was asked for a section, from when on, and by when it arrives if no fault holds it up."""

    section: int
    from_ns: int
    to_ns: int


class _Row(NamedTuple):
    """The columns of `Owners.holdings` that matter here."""

    node: str
    key: str
    lock_key: str
    section: int
    value: str | None
    began: str
    ended: str
    from_min_ns: int
    from_max_ns: int
    to_min_ns: int
    to_max_ns: int
    renewals: tuple[int, ...]
    before_renewals: tuple[tuple[int, int], ...]


class _Touched(NamedTuple):
    """The key of section `of`, by its place, on the node; -1 for that of an attempt. `by`: whose request changed it;
    None if several were asking. `asked`: what was under way, as in `c1's extension`."""

    how: How
    node: str
    key: str
    by: str | None
    of: int
    at_ns: int
    asked: tuple[str, ...] = ()


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the lock does not show what it sets."""
    owners = run.owners
    if owners is None or not owners.are_shown:
        return Answer()
    extensions, first_asked = _extensions(run)
    rows = [_Row._make(row) for row in rows_of(owners.holdings, *_Row._fields)]
    touched = [
        *_overwritten(run, rows, extensions, first_asked),
        *_prolonged(run, owners, rows, extensions, first_asked),
    ]
    deleted = list(_deleted(run, rows, first_asked))
    number = {how: sum(one.how == how for one in touched) for how in ("overwritten", "prolonged")}
    figures = Figures(sum(map(len, extensions.values())), number["overwritten"], number["prolonged"], len(deleted))
    findings = [_finding(run, some, what) for some, what in ((touched, _EXTENDED), (deleted, _DELETED)) if some]
    return Answer(figures, tuple(findings))


def _extensions(run: Recorded) -> tuple[dict[str, list[_Request]], dict[int, int]]:
    """The extensions by key, whatever their outcome, and by section when the first was asked for."""
    places = places_of(run.sections)
    by_key: defaultdict[str, list[_Request]] = defaultdict(list)
    first: dict[int, int] = {}
    ops = run.ops[run.ops["f"].isin(["extend", "held", "reenter"]).to_numpy(bool)]
    for f, key, *of, invoke, complete in rows_of(
        ops, "f", "key", "client", "life", "section", "invoke_ns", "complete_ns"
    ):
        if (place := places.get(tuple(of))) is not None:
            first[place] = min(invoke, first.get(place, FOREVER_NS))
            if f == "extend":
                by_key[str(key)].append(_Request(place, invoke, complete + ARRIVES_WITHIN_NS))
    return by_key, first


class _Change(NamedTuple):
    """A value that was replaced by that of a section. `was_free`: the node had no key when it set the old value."""

    old: _Row
    new: _Row
    was_free: bool


def _overwritten(
    run: Recorded, rows: list[_Row], extensions: dict[str, list[_Request]], first_asked: dict[int, int]
) -> Iterator[_Touched]:
    sections = list(rows_of(run.sections, "client", "asked_ns", "start_ns"))
    faults = longest_windows(run.faults)
    changes = list(_changes(rows))
    until = _unextended_until(run, first_asked)
    acquires_replace = any(
        new.section != old.section and new.from_max_ns < until[new.section] for old, new, _ in changes
    )
    extensions_replace = any(new.section == old.section for old, new, _ in changes)
    for old, new, was_free in changes:
        client, asked_ns, start_ns = sections[new.section]
        if old.section < 0:
            may_be_left = extensions_replace and old.from_max_ns >= first_asked.get(new.section, FOREVER_NS)
            may_be_own = acquires_replace or not was_free or may_be_left
        else:
            may_be_own = sections[old.section][0] == client
        if old.value is None or may_be_own or new.from_min_ns < start_ns:
            continue
        hits = [(a, b) for event, a, b in faults if hits_link(event, client, new.node)]
        acquire = _Request(new.section, asked_ns, start_ns + ARRIVES_WITHIN_NS)
        if acquires_replace and new.from_min_ns <= _arrives_by(acquire, hits):
            continue
        own = (one for one in extensions.get(new.lock_key, ()) if one.section == new.section)
        if any(one.from_ns <= new.from_max_ns and new.from_min_ns <= _arrives_by(one, hits) for one in own):
            yield _Touched("overwritten", new.node, new.lock_key, client, old.section, new.from_max_ns)


def _unextended_until(run: Recorded, first_asked: dict[int, int]) -> list[int]:
    """By section, until when what it set was certainly not set by an extension: until it asked for the first one. The
    last one of a client that died may have asked without a record."""
    died = {(end.client, end.life) for end in run.ends if end.how != "finished"}
    until = [first_asked.get(place, FOREVER_NS) for place in range(len(run.sections))]
    last = {of: place for place, of in enumerate(rows_of(run.sections, "client", "life"))}
    start = run.sections["start_ns"].tolist()
    for of in died & last.keys():
        until[last[of]] = first_asked.get(last[of], start[last[of]])
    return until


def _changes(rows: list[_Row]) -> Iterator[_Change]:
    before: dict[tuple[str, str], tuple[_Row, bool]] = {}
    for row in rows:
        old, was_free = before.get((row.node, row.key), (None, True))
        if old is not None and old.ended == "overwritten" and row.section >= 0:
            yield _Change(old, row, was_free)
        is_free = row.began == "set" and (old is None or old.ended in ("deleted", "expired"))
        before[row.node, row.key] = row, is_free


def _arrives_by(request: _Request, hits: Iterable[tuple[int, int]]) -> int:
    """The latest time at which it may have arrived at a node. `hits`: when faults may have held it up, in the
    order in which they began."""
    by_ns = request.to_ns
    for began_ns, done_ns in hits:
        if began_ns <= by_ns:
            by_ns = max(by_ns, done_ns + ARRIVES_WITHIN_NS)
    return by_ns


def _prolonged(
    run: Recorded,
    owners: Owners,
    rows: list[_Row],
    extensions: dict[str, list[_Request]],
    first_asked: dict[int, int],
) -> list[_Touched]:
    if run.config.renewal_ms is not None:
        return []
    sections = list(rows_of(run.sections, "client", "asked_ns", "start_ns", "end_ns"))
    faults = longest_windows(run.faults)
    own: defaultdict[int, list[_Row]] = defaultdict(list)
    for row in rows:
        own[row.section].append(row)
    once, calls = _is_set_once(rows), calls_by_client(run)
    acquires = run.ops[(run.ops["f"] == "acquire").to_numpy(bool)]
    ended = {tuple(call): at_ns for *call, at_ns in rows_of(acquires, "client", "key", "invoke_ns", "complete_ns")}
    found = []
    for row in rows:
        if row.value is None:
            continue
        is_attempt = row.section < 0
        whose = (None, row.from_min_ns, row.from_max_ns, FOREVER_NS) if is_attempt else sections[row.section]
        client, asked_ns, start_ns, end_ns = whose
        until_ns = min(end_ns, first_asked.get(row.section, FOREVER_NS))
        is_field = row.value in owners.of_clients
        if is_attempt and is_field:
            client = owners.of_clients[row.value]
            began_ns, until_ns = _call_at(row.from_max_ns, calls[client].get(row.lock_key, []))
            if began_ns > row.from_min_ns:
                continue  # It may have been there before the attempt, from a section.
            # A later round of the attempt may find its field and give it more time.
            start_ns = ended.get((client, row.lock_key, began_ns), FOREVER_NS)
        hits = [(since, until) for event, since, until in faults if hits_link(event, client, row.node)]
        for at_ns, (since_ns, would_expire_ns) in zip(row.renewals, row.before_renewals, strict=True):
            if since_ns < start_ns or at_ns >= until_ns or (is_attempt and would_expire_ns >= FOREVER_NS):
                continue
            held_up = any(a <= at_ns and b >= asked_ns for a, b in hits)
            if held_up and not (is_attempt and once and not is_field):
                continue
            meanwhile = [one for one in extensions.get(row.lock_key, ()) if one.from_ns <= at_ns <= one.to_ns]
            by = [one for one in meanwhile if sections[one.section][0] != client and _is_there(own[one.section], at_ns)]
            if by:
                who = str(sections[by[0].section][0])
                found.append(_Touched("prolonged", row.node, row.lock_key, who, row.section, at_ns))
            elif not held_up:
                return []  # this lock renews by itself
    return found


def _call_at(at_ns: int, calls: list[tuple[int, int]]) -> tuple[int, int]:
    """When the last of a client's calls had begun by then, and when the next one did; never, if there is none."""
    number = bisect_right(calls, at_ns, key=itemgetter(0))
    began = [FOREVER_NS, *(began_ns for began_ns, _ in calls), FOREVER_NS]
    return began[number], began[number + 1]


def _is_set_once(rows: list[_Row]) -> bool:
    """Whether each value was set only once on a node: then each attempt has a value of its own."""
    values = Counter(
        (row.node, row.lock_key, row.value) for row in rows if row.value is not None and row.began == "set"
    )
    return max(values.values(), default=1) == 1


def _is_there(own: list[_Row], at_ns: int) -> bool:
    """Whether some node held the section's value then. If not, the lock may have changed it, and not shown that."""
    return any(row.from_min_ns <= at_ns <= row.to_max_ns for row in own)


def _deleted(run: Recorded, rows: list[_Row], first_asked: dict[int, int]) -> Iterator[_Touched]:
    if run.config.renewal_ms is not None or run.permits > 1:
        return  # What renews by itself may also give up by itself; holders of permits may share a key.
    sections = list(rows_of(run.sections, "client", "asked_ns", "start_ns", "end_ns"))
    faults = longest_windows(run.faults)
    asking = _Asking(run)
    for row in rows:
        if row.section < 0 or row.ended != "deleted":
            continue
        client, asked_ns, start_ns, end_ns = sections[row.section]
        since_ns = max(start_ns + ARRIVES_WITHIN_NS, row.from_max_ns)
        if row.to_min_ns < since_ns or row.to_max_ns >= min(end_ns, first_asked.get(row.section, FOREVER_NS)):
            continue
        held_up_ns = asked_ns - ARRIVES_WITHIN_NS
        if any(hits_link(e, client, row.node) and a <= row.to_max_ns and b >= held_up_ns for e, a, b in faults):
            continue
        if others := asking.meanwhile(row.lock_key, str(client), row.to_min_ns, row.to_max_ns):
            who = sorted({one for one, _ in others})
            asked = tuple(f"{one}'s {_WHAT[f]}" for one, f in sorted(set(others)))
            by = who[0] if len(who) == 1 else None
            yield _Touched("deleted", row.node, row.lock_key, by, row.section, row.to_max_ns, asked)


class _Asking:
    """Who was asking for something, by key."""

    def __init__(self, run: Recorded) -> None:
        ops = run.ops[run.ops["f"].isin(list(_WHAT)).to_numpy(bool)]
        self._ops = {str(key): own for key, own in ops.groupby(ops["key"].astype(str), sort=False)}

    def meanwhile(self, key: str, owner: str, from_ns: int, to_ns: int) -> list[tuple[str, str]]:
        """The clients but the owner whose requests may have arrived in this time, and what they asked for."""
        ops = self._ops[key]
        began = ops["invoke_ns"].to_numpy(np.int64) <= from_ns
        may_arrive = began & (ops["complete_ns"].to_numpy(np.int64) + ARRIVES_WITHIN_NS >= to_ns)
        found = rows_of(ops[may_arrive], "client", "f")
        return [(str(client), str(f)) for client, f in found if str(client) != owner]


_EXTENDED: Final = (
    "extensions changed {keys} of other clients, on {nodes}: an extension may prolong only what still has its own value"
)
_DELETED: Final = (
    "requests deleted {keys} of other clients, on {nodes}: a request may delete only what still has its own value"
)


def _finding(run: Recorded, touched: list[_Touched], text: str) -> Finding:
    nodes = listed(sorted({one.node for one in touched}))
    clients = run.sections["client"].astype(str).tolist()
    examples = tuple(
        {
            "how": one.how,
            "node": one.node,
            "key": one.key,
            **({} if one.by is None else {"by": one.by}),
            **({} if one.of < 0 else {"of": clients[one.of]}),
            **({"asked": one.asked} if one.asked else {}),
            "at_ms": run.at_ms(one.at_ns),
        }
        for one in sorted(touched, key=lambda one: one.at_ns)[:3]
    )
    text = text.format(keys=plural(len(touched), "key"), nodes=nodes)
    return Finding("anothers-key", "lock", text, ("lease",), len(touched), examples)
