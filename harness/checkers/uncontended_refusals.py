"""Was a client refused although no client can have held the lock?

A refused try is no finding while another client is inside or trying, or while a key of a former holder may still be
there. But consider a client that tries alone, that certainly could reach as many nodes as the lock needs (a majority
with which it was seen to be granted), and around which nothing has changed for a whole TTL (no fault, no client that
ended, no call that its user cancelled). With a correct lock it finds no key: what was set before the last change has
expired, and what was set after it was released on all nodes in reach. If it is still refused, again and again for half
a TTL, then keys without an owner were left behind, or keys that do not expire in time.

The lock is blamed only if that is on record: the witness saw the keys on so many nodes that no majority was free.
Otherwise the requests may not have arrived (a proxy that stands still answers
no client), and nothing is decided. And no client was alone while the nodes show that another one came and went: a value
that was set on a majority of them and deleted again. That may be a thread of a client, of which the record knows
nothing.

This costs time but not safety, so it breaks only `liveness`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from fencepost.quorum import quorum
from fencepost.text import milliseconds
from harness.explain import causes
from harness.explain.kinds import FindingKind
from harness.figures import CheckerFigures
from harness.history.fault_windows import reach
from harness.history.groups import (
    Bools,
    Groups,
    Ints,
    codes_in,
    codes_of,
    columns_of,
    grouped,
    placed,
    where,
    which,
)
from harness.history.recorded import Recorded, named
from harness.history.stretches import Stretch, in_order, longest, longest_ms
from harness.verdict import Answer, Blame, Finding

LEAST_TRIES: Final = 3
LEAST_TTLS: Final = 0.5
"""Three refused tries over half a TTL: a single late reply on a busy machine is no finding."""


@dataclass(frozen=True, slots=True)
class _Spell(Stretch):
    """A time in which a client was refused again and again. `rows`: the tries, in `ops`."""

    rows: Ints


class Figures(CheckerFigures, frozen=True):
    """`refused_alone`: how often that happened; `longest_refused_alone_ms`: 0 if never. Shown as a finding."""

    refused_alone: int
    longest_refused_alone_ms: float


def check(run: Recorded) -> Answer:
    spells = [spell for spell in _spells(run) if not _another_user_came_and_went(run, spell)]
    figures = Figures(len(spells), longest_ms(spells) or 0.0)
    whose: dict[Blame, list[_Spell]] = grouped(
        ("lock" if found else "undecided", spell)
        for spell, found in zip(spells, _found_keys(run, spells) if spells else [], strict=True)
    )
    return Answer(figures, tuple(_finding(run, whose[blame], blame) for blame in _WHY if blame in whose))


_WHY: Final[dict[Blame, str]] = {
    "lock": "keys without an owner were in its way",
    "undecided": "no obstacle is on record, nor whether its requests arrived",
}


def _finding(run: Recorded, spells: list[_Spell], blame: Blame) -> Finding:
    times = "once" if len(spells) == 1 else f"{len(spells)} times"
    text = (
        f"a client was refused for up to {milliseconds(longest_ms(spells))} although it could reach a majority and "
        f"no other client was inside or trying ({times}, TTL {run.lease_ms:.0f} ms): {_WHY[blame]}"
    )
    return REFUSED_ALONE.of(spells, text, partial(_example, run), longest(spells), blame=blame)


def _example(run: Recorded, spell: _Spell) -> dict[str, object]:
    return {**named(run.ops.iloc[int(spell.rows[0])]), **run.lasted(spell), "tries": len(spell.rows)}


def _another_user_came_and_went(run: Recorded, spell: _Spell) -> bool:
    """Whether the witness saw a value that was set on a majority of the nodes during the spell, and deleted there."""
    if run.owners is None:
        return False
    keys, key = run.owners.holdings, str(run.ops["key"].iloc[int(spell.rows[0])])
    is_within = (keys["from_min_ns"] >= spell.since_ns) & (keys["to_max_ns"] <= spell.until_ns)
    nodes = where(keys, is_within, lock_key=key, ended="deleted").groupby("value", observed=True)["node"].nunique()
    return bool((nodes > len(run.nodes) // 2).any())


def _found_keys(run: Recorded, spells: list[_Spell]) -> list[bool]:
    """For each spell whether most of its tries certainly found the lock taken: keys that were on the nodes all the time
    left no majority free. Those of sections that were left without a release do not count."""
    if run.owners is None:
        return [False] * len(spells)
    ops, holdings = run.ops, run.owners.holdings
    holdings = where(holdings, ~holdings["section"].isin(list(run.forgotten_sections)))
    invoke, complete = columns_of(ops, "invoke_ns", "complete_ns")
    majority = quorum(len(run.nodes))
    found = []
    for spell in spells:
        of_key = where(holdings, lock_key=str(ops["key"].iloc[int(spell.rows[0])]))
        since, until = columns_of(of_key, "from_max_ns", "to_min_ns")
        node, taken = codes_of(of_key["node"]), 0
        for row in spell.rows:
            there = (since <= invoke[row]) & (until >= complete[row])
            taken += len(run.nodes) - len(np.unique(node[there])) < majority
        found.append(2 * taken >= len(spell.rows))
    return found


def _spells(run: Recorded) -> list[_Spell]:
    """The times in which a client was refused alone, in the order of their beginnings."""
    counted = which(run.ops, f="acquire", outcome="fail")
    # Few tries belong to a long spell. Only these are examined closely, and then what is left of each spell once more.
    for allowed in (_calm, _alone):
        rows = np.concatenate([np.zeros(0, np.int64), *_in_vain(run, counted)])
        counted = np.zeros(len(run.ops), np.bool_)
        counted[rows[allowed(run, rows)]] = True
    invoke, complete = columns_of(run.ops, "invoke_ns", "complete_ns")
    return in_order(_Spell(int(invoke[rows[0]]), int(complete[rows[-1]]), rows) for rows in _in_vain(run, counted))


def _in_vain(run: Recorded, counted: Bools) -> Iterator[Ints]:
    """The rows of tries without a break, three or more over half a TTL: of one section, and without any other operation
    (also a try that is not counted) in between. `counted`: by row."""
    ops = run.ops
    life, section = placed(codes_of(ops["client"]), ops["life"].to_numpy()), ops["section"].to_numpy()
    lives = Groups.of_equal(life)
    places = np.flatnonzero(lives.take(counted))
    rows = lives.rows(places)
    goes_on = np.diff(places) == 1
    goes_on &= (section[rows[1:]] == section[rows[:-1]]) & (life[rows[1:]] == life[rows[:-1]])
    begin = np.append(0, np.flatnonzero(~goes_on) + 1)[: len(rows)]
    end = np.append(begin[1:], len(rows))[: len(rows)]
    invoke, complete = (ops[name].to_numpy(np.int64)[rows] for name in ("invoke_ns", "complete_ns"))
    lasted = complete[end - 1] - invoke[begin]
    for spell in np.flatnonzero((end - begin >= LEAST_TRIES) & (lasted >= LEAST_TTLS * run.lease_ms * 1_000_000)):
        yield rows[begin[spell] : end[spell]]


def _calm(run: Recorded, rows: Ints) -> Bools:
    """Which tries were made while nothing had changed for a TTL and their client surely could reach nodes that are
    enough: a majority, with which, or with less, some client was granted the lock in this run."""
    calm = np.zeros(len(rows), np.bool_)
    if not len(rows):
        return calm
    ops, config, ttl_ns = run.ops, run.config, round(run.lease_ms * 1_000_000)
    granted = np.flatnonzero(which(ops, f="acquire", outcome="ok"))
    invoke, complete = columns_of(ops, "invoke_ns", "complete_ns")
    client = codes_in(pd.Index(config.user_names), ops["client"])
    begin, end = run.timeline.start_ns, int(complete.max())
    # A client that tries is alive, so only the fact that a client ended matters here, not which one.
    stretches = list(reach(config.user_names, run.nodes, run.faults, (), begin, end, group=run.group))
    granted = granted[_surely_as_recorded(run, invoke[granted], complete[granted])]
    enough: set[frozenset[str]] = set()
    for since, until, missing in stretches:
        inside = granted[(invoke[granted] >= since) & (complete[granted] <= until)]
        named = {config.user_names[code] for code in np.unique(client[inside]) if code >= 0}
        enough |= {missing[name] for name in named & missing.keys()}
    changes = {end.at_ns for end in run.ends}
    for began, done, missing in stretches:
        able = [
            place
            for place, name in enumerate(config.user_names)
            if name in missing and any(missing[name] <= lost for lost in enough)
        ]
        inner = sorted({began, done} | {min(max(at, began), done) for at in changes})
        for since, until in pairwise(inner):
            fits = (invoke[rows] >= since + ttl_ns) & (complete[rows] <= until)
            calm |= fits & np.isin(client[rows], able)
    for since, until in run.wrong_clocks.times:  # what was set before the last change may not have expired
        calm &= (complete[rows] < since) | (invoke[rows] > until)
    for call in run.cancelled:
        calm &= (complete[rows] < call.since_ns) | (invoke[rows] >= call.at_ns + ttl_ns)
    return calm


def _surely_as_recorded(run: Recorded, invoke: Ints, complete: Ints) -> Bools:
    """Which times are ones in which every fault was as the record has it: none was being injected or healed, and none
    that was injected without being verified active."""
    sure = np.ones(len(invoke), np.bool_)
    doubtful = [(event.began_ns, event.done_ns) for event in run.faults]
    doubtful += [(since, until) for event, since, until in run.fault_windows if not event.holds]
    for since, until in doubtful:
        sure &= (complete < since) | (invoke > until)
    return sure


def _alone(run: Recorded, rows: Ints) -> Bools:
    """During which tries no other client was trying for, holding or giving back the same key."""
    alone = np.ones(len(rows), np.bool_)
    if not len(rows):
        return alone
    ops, silent = run.ops, _unrecorded(run)
    clients, keys = (pd.Index(ops[name].astype("category").cat.categories) for name in ("client", "key"))
    asking = ops[ops["f"].isin(["acquire", "extend", "release"])]
    busy = ((asking, "invoke_ns", "complete_ns"), (run.sections, "start_ns", "end_ns"))
    who = np.concatenate([codes_in(clients, table["client"]) for table, _, _ in busy])
    since, until = (np.concatenate([each[0][each[n]].to_numpy(np.int64) for each in busy]) for n in (1, 2))
    by_key = Groups.of(np.concatenate([codes_in(keys, table["key"]) for table, _, _ in busy]))
    who_unseen = clients.get_indexer([client for client, _, _ in silent])
    since_unseen, until_unseen = (np.array([times[n] for times in silent], np.int64) for n in (1, 2))
    key, client = codes_in(keys, ops["key"])[rows], codes_in(clients, ops["client"])[rows]
    invoke, complete = (ops[name].to_numpy(np.int64)[rows] for name in ("invoke_ns", "complete_ns"))
    for wanted in np.unique(key):
        there = by_key.rows(np.arange(by_key.edges[wanted], by_key.edges[wanted + 1]))
        clients_there = np.append(who[there], who_unseen)
        began, ended = np.append(since[there], since_unseen), np.append(until[there], until_unseen)
        tries = np.flatnonzero(key == wanted)
        touched = _touched(began, ended, invoke[tries], complete[tries])
        for one in np.unique(client[tries]):
            mine, own = client[tries] == one, clients_there == one
            touched[mine] -= _touched(began[own], ended[own], invoke[tries[mine]], complete[tries[mine]])
        alone[tries] = touched == 0
    return alone


def _touched(began: Ints, ended: Ints, invoke: Ints, complete: Ints) -> Ints:
    """How many of the times from `began` to `ended` touch each of those from `invoke` to `complete`: all that
    had begun by its end, without the ones that had ended before its begin."""
    begun = np.searchsorted(np.sort(began), complete, "right")
    return begun - np.searchsorted(np.sort(ended), invoke, "left")


def _unrecorded(run: Recorded) -> list[tuple[str, int, int]]:
    """When lives that did not end by themselves may have been doing something that is not on record."""
    last = run.ops.groupby(["client", "life"], observed=True, as_index=False)["complete_ns"].max()
    lives = zip(last["client"].astype(str), last["life"].astype(int), strict=True)
    by_life = dict(zip(lives, last["complete_ns"].astype(int).tolist(), strict=True))
    begin = run.timeline.start_ns
    return [
        (end.client, min(by_life.get((end.client, end.life), begin), end.at_ns), end.at_ns)
        for end in run.ends
        if end.how != "finished"
    ]


REFUSED_ALONE: Final = FindingKind(
    "refused-without-rival",
    "liveness",
    comes_of=("stuck keys", *causes.KEEP_CLIENTS_OUT),
    noun="refusal(s) without a rival",
    surveyed="free",
)
