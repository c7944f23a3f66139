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

Some locks keep each client in more keys than one: whom they let in, and besides who may be inside, or for how long. So
one key alone may be full, too. Then each client counts that has an entry in it or elsewhere, as far as it is inside,
within its lease, or its call is under way: it may be next. Only an attempt does not count that was refused as well,
and had asked this node for the key since the place was over, and got an answer: it was no more let in than the others.

`LEAST` attempts are found. This costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fencepost.quorum import quorum
from fencepost.text import milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import changes_where, how_sent
from harness.figures import KeyFigures, Row
from harness.history.groups import grouped, rows_of
from harness.history.ledger import Ledger
from harness.history.node_requests import Request
from harness.history.places_taken import Place, PlacesInOrder, kept_for_ns, places_taken
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

LEAST: Final = 3
_EXAMPLES: Final = 3
_CALL: Final = ("client", "invoke_ns", "complete_ns")


class Figures(KeyFigures, frozen=True):
    """`places`: that stayed taken when the lease of their client was over, and kept others out. `attempts`: that they
    kept out."""

    places: int
    attempts: int

    def rows(self) -> Iterator[Row]:
        if self.places:
            places, attempts = plural(self.places, "place"), plural(self.attempts, "attempt")
            yield Row("places", f"{places} of clients whose lease was over kept out {attempts}", order=86)


class _Attempt(NamedTuple):
    """A refused acquire, and the places that kept it out."""

    client: str
    from_ns: int
    to_ns: int
    by: Sequence[Place]


def check(run: Recorded) -> Answer:
    """No figures where what the nodes held is not on record, and of a lock that was not used as a semaphore."""
    ledger = run.whole_ledger
    if ledger is None or not run.counts_permits:
        return Answer()
    attempts = [one for key in map(str, run.ops["key"].unique()) for one in _kept_out(run, ledger, key)]
    attempts = attempts if len(attempts) >= LEAST else []
    places = {place.put["row"]: place for attempt in attempts for place in attempt.by}
    by_place = grouped((place.put["row"], attempt) for attempt in attempts for place in attempt.by)
    figures = Figures(len(places), len(attempts))
    return Answer(figures, (_finding(run, ledger, places, by_place, len(attempts)),) if attempts else ())


def _kept_out(run: Recorded, ledger: Ledger, key: str) -> Iterator[_Attempt]:
    by_node = grouped((place.node, place) for place in places_taken(run, ledger, key))
    over = [one for own in by_node.values() for one in own if one.is_kept and one.over_ns < one.until_ns]
    if not over:
        return
    nodes, tries = run.nodes_of(key), run.calls("acquire", "fail", key).sort_values("invoke_ns", kind="stable")
    in_order = {node: PlacesInOrder(by_node[node]) for node in nodes}
    refused = {(str(client), at_ns): done_ns for client, at_ns, done_ns in rows_of(tries, *_CALL)}
    asked = _Asked(ledger, refused)
    every = frozenset(one.key for own in by_node.values() for one in own if one.is_kept)
    some = list(dict.fromkeys([every, *(frozenset([place.key]) for place in over)]))
    for (client, from_ns), to_ns in refused.items():
        there = {node: in_order[node].at(from_ns, to_ns) for node in nodes}
        if any(one.is_kept and one.over_ns <= from_ns for own in there.values() for one in own):
            attempt = _Attempt(client, from_ns, to_ns, ())
            found = (_by(run, asked, attempt, there, keys) for keys in some)
            if (by := next(filter(None, found), None)) is not None:
                yield attempt._replace(by=by)


def _by(
    run: Recorded, asked: _Asked, attempt: _Attempt, there: Mapping[str, Sequence[Place]], keys: frozenset[str]
) -> Sequence[Place]:
    """The places in these keys that kept it out; empty if none did. `there`: by node."""
    client, from_ns, to_ns, _ = attempt
    full, by = 0, list[Place]()
    for node, own in there.items():
        places = [one for one in own if one.key in keys]
        whole = [one for one in places if one.since_ns <= from_ns and one.until_ns >= to_ns]
        over = [one for one in whole if one.over_ns <= from_ns]
        if len(places) - len(over) + _waiting(asked, own, over, keys, from_ns) >= run.permits:
            return ()
        if len(whole) < run.permits or not _is_known(run, node, from_ns, to_ns):
            continue
        named = asked.keys(client, node, from_ns)
        is_full = sum(one.key in named for one in whole) >= run.permits
        if is_full and asked.ledger.links.of(client).answered(from_ns, to_ns, node):
            full, by = full + 1, by + [one for one in over if one.key in named]
    return by if full > len(there) - quorum(len(there)) else ()


def _waiting(asked: _Asked, there: Sequence[Place], over: Sequence[Place], keys: frozenset[str], from_ns: int) -> int:
    """How many clients that have an entry in other keys only may be next to get a place in these."""
    known = {one.owner for one in there if one.key in keys}
    elsewhere = [one for one in there if one.over_ns > from_ns and one.owner not in known]
    return len({one.owner for one in elsewhere if not asked.in_vain(one, over)})


def _is_known(run: Recorded, node: str, from_ns: int, to_ns: int) -> bool:
    """Whether the node was in sight all this time, and its clock did not keep places for longer."""
    is_seen = run.watched is not None and run.watched.saw(node, from_ns, to_ns)
    return is_seen and not run.wrong_clocks.touch(node, from_ns, to_ns)


@dataclass(frozen=True)
class _Asked:
    """What attempts asked the nodes. `refused`: by client and start, the ends of those that were refused."""

    ledger: Ledger
    refused: Mapping[tuple[str, int], int]
    _known: dict[tuple[str, str, int], Sequence[Request]] = field(default_factory=dict)

    def keys(self, client: str, node: str, from_ns: int, since_ns: int = 0) -> set[str]:
        """The keys that the requests of this attempt named to the node from the second time on, as far as the node
        answered them, not with an error."""
        whose = client, node, from_ns
        if whose not in self._known:
            sent = self.ledger.sent
            asked = sent.between(*whose, self.refused[client, from_ns])
            self._known[whose] = [one for one in asked if one.reply is not None and sent.error_of(one) is None]
        return {key for one in self._known[whose] if one.from_client_ns >= since_ns for key in one.keys}

    def in_vain(self, waits: Place, over: Sequence[Place]) -> bool:
        """Whether the attempt that put this entry there was refused as well, and had asked its node for the key of one
        of these places when that was over."""
        client, from_ns = str(waits.put["task"]), int(waits.put["invoke_ns"])
        if waits.put["f"] != "acquire" or (client, from_ns) not in self.refused:
            return False
        return any(one.key in self.keys(client, waits.node, from_ns, one.over_ns) for one in over)


def _finding(
    run: Recorded,
    ledger: Ledger,
    places: Mapping[int, Place],
    by_place: Mapping[int, Sequence[_Attempt]],
    attempts: int,
) -> Finding:
    stayed_ns = {row: by_place[row][-1].to_ns - place.over_ns for row, place in places.items()}
    text = (
        f"{plural(len(places), 'place')} of clients whose lease was over stayed taken, for up to "
        f"{milliseconds((max(stayed_ns.values()) + kept_for_ns(run)) / 1e6)} after they last used the key, and kept "
        f"out {plural(attempts, 'attempt')}"
    )
    worst = sorted(places, key=lambda row: -len(by_place[row]))[:_EXAMPLES]
    examples = [_example(run, ledger, places[row], by_place[row]) for row in worst]
    at_ns = min(attempt.from_ns for some in by_place.values() for attempt in some)
    return KEPT.found("lock", text, len(places), examples, run.at_ms(at_ns))


def _example(run: Recorded, ledger: Ledger, place: Place, attempts: Sequence[_Attempt]) -> dict[str, object]:
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
        f"{case.counted('attempts', 'attempt')}, although fewer clients than permits had a place."
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
