"""Did the place of a client whose lease was over stay taken, so that others did not get in?

A semaphore keeps the places of its clients as entries: in a list, a set, a sorted set or a hash. If all of them share
one time to live, that of the key, each request that prolongs it prolongs the place of a client that is gone, too. Such
a place is over two leases after the last request of its own call or section changed the key, when the call is over and
the client is neither inside nor within its lease. It kept an attempt out if all of this was so, from the attempt's call
to its end:

- the attempt was refused, and on so many nodes that no majority was left `permits` entries were there, in keys that the
  attempt named to the node. Each of these nodes was in sight, its clock was right, and it answered a request of the
  attempt, not with an error;
- on every node fewer than `permits` of the entries that were there at any time of it were not over. What waits in a
  queue counts, too.

`LEAST` attempts are found. This costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fencepost.quorum import quorum
from fencepost.text import milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import changes_where, how_sent
from harness.figures import KeyFigures, Row
from harness.history.entries import Entry
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import grouped, places_of, rows_of
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

LEAST: Final = 3
LEASES: Final = 2
_ROUNDED_NS: Final = 50_000_000
"""A lock that keeps places for two leases counts on a server's clock, in milliseconds or more."""
_EXAMPLES: Final = 3


class Figures(KeyFigures, frozen=True):
    """`places`: that stayed taken when the lease of their client was over, and kept others out. `attempts`: that they
    kept out."""

    places: int
    attempts: int

    def rows(self) -> Iterator[Row]:
        if self.places:
            places, attempts = plural(self.places, "place"), plural(self.attempts, "attempt")
            yield Row("places", f"{places} of clients whose lease was over kept out {attempts}", order=86)


class _Place(NamedTuple):
    """An entry that was there from `since_ns` until `until_ns`, and over from `over_ns` on. `put`: what added it."""

    node: str
    key: str
    put: Change
    since_ns: int
    over_ns: int
    until_ns: int


class _Attempt(NamedTuple):
    """A refused acquire, and the places that kept it out."""

    client: str
    from_ns: int
    to_ns: int
    by: Sequence[_Place]


def check(run: Recorded) -> Answer:
    """No figures where what the nodes held is not on record, and of a lock that lets in one client at a time."""
    ledger = run.whole_ledger
    if ledger is None or run.config.permits < 2:
        return Answer()
    attempts = [one for key in map(str, run.ops["key"].unique()) for one in _kept_out(run, ledger, key)]
    attempts = attempts if len(attempts) >= LEAST else []
    places = {place.put["row"]: place for attempt in attempts for place in attempt.by}
    by_place = grouped((place.put["row"], attempt) for attempt in attempts for place in attempt.by)
    figures = Figures(len(places), len(attempts))
    return Answer(figures, (_finding(run, ledger, places, by_place, len(attempts)),) if attempts else ())


def _kept_out(run: Recorded, ledger: Ledger, key: str) -> Iterator[_Attempt]:
    by_node = grouped((place.node, place) for place in _places(run, ledger, key))
    if not any(place.over_ns < place.until_ns for own in by_node.values() for place in own):
        return
    nodes, permits, tries = run.nodes_of(key), run.config.permits, run.ops
    refused = tries[((tries["f"] == "acquire") & (tries["outcome"] == "fail") & (tries["key"] == key)).to_numpy(bool)]
    for client, from_ns, to_ns in rows_of(refused, "client", "invoke_ns", "complete_ns"):
        full, by = 0, list[_Place]()
        for node in nodes:
            there = [one for one in by_node[node] if one.since_ns < to_ns and one.until_ns > from_ns]
            whole = [one for one in there if one.since_ns <= from_ns and one.until_ns >= to_ns]
            over = [one for one in whole if one.over_ns <= from_ns]
            if len(there) - len(over) >= permits:
                break
            if len(whole) < permits or not _is_known(run, node, from_ns, to_ns):
                continue
            named = {name for one in ledger.sent.between(str(client), node, from_ns, to_ns) for name in one.keys}
            is_full = sum(one.key in named for one in whole) >= permits
            if is_full and ledger.links.of(client).answered(from_ns, to_ns, node):
                full, by = full + 1, by + [one for one in over if one.key in named]
        else:
            if full > len(nodes) - quorum(len(nodes)):
                yield _Attempt(str(client), from_ns, to_ns, by)


def _is_known(run: Recorded, node: str, from_ns: int, to_ns: int) -> bool:
    """Whether the node was in sight all this time, and its clock did not keep places for longer."""
    is_seen = run.watched is not None and run.watched.saw(node, from_ns, to_ns)
    return is_seen and not run.wrong_clocks.touch(node, from_ns, to_ns)


def _places(run: Recorded, ledger: Ledger, key: str) -> Iterator[_Place]:
    """The entries of the keys into which granted acquires put one, and out of which releases take their own."""
    meant = ledger.calls.meant_by(entry.key for entry in ledger.entries)
    entries = [entry for entry in ledger.entries if key in meant[entry.key]]
    told = [(entry, ledger.change(entry.added)) for entry in entries]
    kept = {(entry.node, entry.key) for entry, put in told if put["f"] == "acquire" and put["outcome"] == "ok"}
    given = {(entry.node, entry.key) for entry, put in told if _is_given_back(ledger, entry, put)}
    last, places = _last_of_own(ledger), places_of(run.sections)
    sections = list(rows_of(run.sections, "end_ns", "deadline_max_ns"))
    for entry, put in told:
        if (entry.node, entry.key) not in kept & given:
            continue
        own = put["task"], put["life"], put["section"]
        over_ns = last.get((entry.node, entry.key, own), FOREVER_NS) + round(LEASES * run.lease_ms * 1e6)
        over_ns += _ROUNDED_NS
        over_ns = max(over_ns, put["complete_ns"]) if put["complete_ns"] >= 0 else FOREVER_NS
        if (place := places.get(own)) is not None:
            over_ns = max(over_ns, *sections[place])
        yield _Place(entry.node, entry.key, put, int(put["at_ns"]), over_ns, entry.until_ns)


def _is_given_back(ledger: Ledger, entry: Entry, put: Change) -> bool:
    if entry.ended < 0:
        return False
    end = ledger.change(entry.ended)
    return bool(end["f"] == "release" and (end["task"], end["section"]) == (put["task"], put["section"]))


def _last_of_own(ledger: Ledger) -> Mapping[tuple[str, str, tuple[Any, ...]], int]:
    """By node, key, and client, life and section, when their requests changed the key last."""
    rows = ledger.rows[(ledger.rows["call"] >= 0).to_numpy(bool)]
    columns = rows_of(rows, "node", "key", "task", "life", "section", "at_ns")
    return {(node, key, (task, life, section)): at_ns for node, key, task, life, section, at_ns in columns}


def _finding(
    run: Recorded,
    ledger: Ledger,
    places: Mapping[int, _Place],
    by_place: Mapping[int, Sequence[_Attempt]],
    attempts: int,
) -> Finding:
    stayed_ns = {row: by_place[row][-1].to_ns - place.over_ns for row, place in places.items()}
    text = (
        f"{plural(len(places), 'place')} of clients whose lease was over stayed taken, for up to "
        f"{milliseconds(max(stayed_ns.values()) / 1e6 + LEASES * run.lease_ms)} after they last used the key, and kept "
        f"out {plural(attempts, 'attempt')}"
    )
    worst = sorted(places, key=lambda row: -len(by_place[row]))[:_EXAMPLES]
    examples = [_example(run, ledger, places[row], by_place[row]) for row in worst]
    at_ns = min(attempt.from_ns for some in by_place.values() for attempt in some)
    return KEPT.found("lock", text, len(places), examples, run.at_ms(at_ns))


def _example(run: Recorded, ledger: Ledger, place: _Place, attempts: Sequence[_Attempt]) -> dict[str, object]:
    example: dict[str, object] = {
        "client": str(place.put["task"]),
        "where": place.key,
        "node": place.node,
        "at_ms": run.at_ms(attempts[0].from_ns),
        "put_ms": run.at_ms(place.since_ns),
        "over_ms": run.at_ms(place.over_ns),
        "until_ms": run.at_ms(attempts[-1].to_ns),
        "attempts": len(attempts),
    }
    rows = ledger.rows
    later = (rows["key"] == place.key) & (rows["node"] == place.node) & (rows["until_ns"] > rows["had_until_ns"])
    later &= rows["at_ns"].between(place.since_ns, attempts[-1].to_ns) & (rows["client"] != place.put["client"])
    for change in changes_where(ledger, later & (rows["request"] >= 0))[-1:]:
        example |= {"by": str(change["task"] or change["client"]), "prolonged": how_sent(run, change)}
    return example


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    why = ""
    if "prolonged" in case.example:
        by, prolonged = case.texts("by", "prolonged")
        why = f" The key lives on because of other clients: {by} prolonged it last ({prolonged})."
    return Told(
        f"{case.text('client')} took a place in {case.text('where')} on {case.text('node')} at {case.at('put_ms')}. It "
        f"was over by {case.at('over_ms')}, and still there at {case.at('until_ms')}: it kept out "
        f"{case.counted('attempts', 'attempt')} of other clients, although fewer clients than permits had a place."
        f"{why}",
        cause="place kept",
    )


KEPT: Final = FindingKind(
    "place-outlasts-lease",
    "liveness",
    _told,
    stands_for="place kept",
    noun="place(s) kept beyond the lease",
    surveyed="free",
)
