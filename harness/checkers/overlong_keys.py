"""Do keys live longer than the lock was asked for?

An expiry is what frees a lock whose holder is gone. If keys are told to live for longer than the lease time, then for
as long as that no client gets in after a holder died, or could not release. No holder needs to die to show it: the
witness reads each key's time to live as soon as it is set or prolonged, and a key had at least what was left of it
then.

What counts is what a majority of the nodes had been told by the lock's yes, and in the end. Some locks set their keys
for the time that acquiring may take, and shorten that when they have them all; a node that is cut off by then keeps the
longer time. And a lock may keep the end of its leases elsewhere: nothing is said of one that was seen to let a client
in over another one's key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.quorum import quorum
from fencepost.text import milliseconds, out_of, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import changes_where, how_sent
from harness.figures import KeyFigures, Row
from harness.history.quorum_support import Backing
from harness.history.recorded import Recorded, named
from harness.history.without_expiry import are_taken_over
from harness.verdict import Answer, worst_first

MARGIN_MS: Final = 100
MARGIN_SHARE: Final = 0.02
"""Some locks let the keys live longer by what clocks may drift, instead of shortening the lease: so many milliseconds,
and this share of the lease time, are not held against them."""
_LEFT_SHARE: Final = 0.25
"""A renewal comes when so much of the lease is left, or more."""


class Figures(KeyFigures, frozen=True):
    """`sections`: those whose keys' time to live was read on a majority of the nodes. `overlong`: those whose keys live
    for too long; `longest_ms`: the longest time to live of those, 0 without any."""

    sections: int
    overlong: int
    longest_ms: float

    def rows(self) -> Iterator[Row]:
        if self.overlong:
            sections = out_of(self.overlong, self.sections, "section", "sections")
            text = f"in {sections} the keys live for longer than was asked for, up to {milliseconds(self.longest_ms)}"
            yield Row("overlong", text, order=82)


class _Kept(NamedTuple):
    """`section`: its place. `ttl_ms`: a majority of the nodes was told to keep its keys for so long, or longer.
    `nodes`: these."""

    section: int
    ttl_ms: int
    nodes: tuple[str, ...]


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    if run.backing is None:
        return Answer()
    kept = list(_kept(run, run.backing))
    overlong = [one for one in kept if is_overlong(run, one.ttl_ms)]
    if overlong and run.ledger is not None and are_taken_over(run.backing.owners, run.ledger, from_holders=True):
        overlong = []
    figures = Figures(len(kept), len(overlong), max((one.ttl_ms for one in overlong), default=0))
    if not overlong:
        return Answer(figures)
    longest = max(overlong, key=lambda one: one.ttl_ms)
    text = (
        f"in {len(overlong)} of {plural(len(kept), 'section')} the lock gave the keys on a majority of the nodes a TTL "
        f"of up to {milliseconds(longest.ttl_ms)}, although the client had asked for {milliseconds(run.lease_ms)}"
    )
    examples = tuple(
        {
            **named(run.sections.iloc[one.section]),
            "at_ms": run.at_ms(run.sections["start_ns"].iloc[one.section]),
            "ttl_ms": one.ttl_ms,
            "nodes": one.nodes,
        }
        for one in worst_first(overlong, longest)
    )
    return Answer(figures, (OVERLONG.found("lock", text, len(overlong), examples),))


def is_overlong(run: Recorded, ttl_ms: float | None) -> bool:
    """Whether a key's time to live is known to be longer than a lease."""
    return ttl_ms is not None and ttl_ms > run.lease_ms * (1 + MARGIN_SHARE) + MARGIN_MS


def _kept(run: Recorded, backing: Backing) -> Iterator[_Kept]:
    """By section, the longest time to live that a majority of its nodes was told. By a wrong clock it may be any."""
    starts = run.sections["start_ns"].tolist()
    told: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for held in backing.owners.each:
        if held.section < 0 or run.wrong_clocks.touch(held.node, held.from_min_ns, held.to_min_ns):
            continue
        by_yes = sum(since_ns <= starts[held.section] for since_ns, _ in held.before_renewals)
        if known := [ttl_ms for ttl_ms in (held.ttls_ms[by_yes], held.ttls_ms[-1]) if ttl_ms is not None]:
            told[held.section][held.node] = max(known)
    for section, by_node in sorted(told.items()):
        majority = quorum(len(backing.nodes(section)))
        if len(by_node) >= majority:
            nodes = sorted(by_node, key=lambda node: (-by_node[node], node))[:majority]
            yield _Kept(section, by_node[nodes[-1]], tuple(sorted(nodes)))


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, ttl_ms = case.text("client"), float(case.example["ttl_ms"])
    return Told(
        f"{client} acquired the lock at {case.at()}. The lock gave its key on {case.listed('nodes')} a TTL of "
        f"{ttl_ms:,.0f} ms or more, although {client} had asked for {run.lease_ms:,.0f} ms: if {client} dies, no other "
        f"client can acquire the lock for that long.{_added(run, case)}"
    )


def _added(run: Recorded, case: Case) -> str:
    """` It added 2,000 ms to the 6,564 ms that the key had left: in its extension it sent …`: if the request that gave
    the key the most made that no more than a lease longer."""
    ledger, example = run.ledger, case.example
    if ledger is None:
        return ""
    rows = ledger.rows
    own = (rows["what"] == "prolonged") & (rows["task"] == example["client"]) & (rows["section"] == example["section"])
    changes = changes_where(ledger, own & rows["node"].isin(example["nodes"]) & (rows["request"] >= 0))
    if not changes:
        return ""
    change = max(changes, key=lambda one: int(one["until_ns"]) - int(one["at_ns"]))
    left_ms, given_ms = ((int(change[name]) - int(change["at_ns"])) / 1e6 for name in ("had_until_ns", "until_ns"))
    if left_ms < _LEFT_SHARE * run.lease_ms or is_overlong(run, given_ms - left_ms):
        return ""
    added = f"It added {given_ms - left_ms:,.0f} ms to the {left_ms:,.0f} ms that the key had left"
    return f" {added}: {how_sent(run, change)}."


OVERLONG: Final = FindingKind(
    "keys-outlast-lease",
    "liveness",
    _told,
    stands_for="overlong",
    noun="section(s) whose keys outlast the lease",
    surveyed="free",
)
