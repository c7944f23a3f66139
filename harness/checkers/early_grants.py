"""Was an acquire granted before a majority of its nodes had answered?

The record of the links says when the proxy sent each reply on to the client, which is before the client can have it. So
a node whose first reply to the call was sent on after the call had ended had not answered when the lock said yes. What
a reply says does not matter here: a lock that says yes with fewer answers than a majority cannot know that it has one,
whether or not that came true.

A lock need not ask for what its process has already (it keeps a lease, renews it in the background, or was handed it by
a release). So a node counts as well if it held a key of the lock then that the same process had set and knew of, or a
release of another client; and if that is not known, because the node was not watched or no request on record set the
key. How many nodes are needed is a majority of the nodes a call usually asks: of all that the lock uses, if it asks as
many, and one if it asks one. Nothing is said of nested acquires and, for semaphores, of more than one node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import out_of
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import CheckerFigures, Row
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Bools, Ints, columns_of, grouped, rows_of, where
from harness.history.ledger import Ledger
from harness.history.recorded import Recorded, named
from harness.verdict import Answer

_HANDS_ON: Final = ("release", "leave")
_GONE: Final = ("deleted", "expired", "evicted", "lost")


class Figures(CheckerFigures, frozen=True):
    """`grants`: acquires that were granted. `early`: how many of them succeeded before a majority of the nodes had
    answered."""

    grants: int
    early: int

    def rows(self) -> Iterator[Row]:
        if self.early:
            grants = out_of(self.early, self.grants, "acquire", "acquires")
            yield Row("early", f"{grants} succeeded before a majority of the nodes had answered", order=61)


class _Early(NamedTuple):
    """`place`: of the acquire among the granted ones. `answered`: the nodes that had; `needed`: how many
    must."""

    place: int
    answered: tuple[str, ...]
    needed: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the requests are not on record."""
    ledger = run.ledger
    if ledger is None:
        return Answer()
    grants = run.calls("acquire", "ok")
    early = sorted(_early(run, ledger, grants), key=lambda one: grants["complete_ns"].iloc[one.place])
    figures = Figures(len(grants), len(early))
    if not early:
        return Answer(figures)
    text = (
        f"{out_of(len(early), len(grants), 'acquire', 'acquires')} succeeded before a majority of the nodes had "
        "answered: the lock cannot have known that it was granted"
    )

    def example(one: _Early) -> dict[str, object]:
        row, of = grants.iloc[one.place], {"answered": one.answered, "needed": one.needed}
        return {**named(row), "at_ms": run.at_ms(row.complete_ns), **of}

    return Answer(figures, (EARLY_GRANT.of(early, text, example),))


def _early(run: Recorded, ledger: Ledger, grants: pd.DataFrame) -> Iterator[_Early]:
    invoke, complete = columns_of(grants, "invoke_ns", "complete_ns")
    process = np.array([process_of(str(client)) for client in grants["client"]], object)
    asked, answered = (np.zeros((len(grants), len(run.nodes)), bool) for _ in range(2))
    for client, node, answers in answers_of(ledger.wire.requests, run.nodes):
        own, column = np.flatnonzero(process == client), run.nodes.index(node)
        asked[own, column] = answers.asked(invoke[own], complete[own])
        answered[own, column] = answers.answered(invoke[own], complete[own])
    needed = _needed(run, grants["key"].astype(str).to_numpy(object), asked.sum(axis=1))
    lacking = np.flatnonzero(answered.sum(axis=1) < needed).tolist()
    held = _Held(run, ledger) if lacking else None
    for one in lacking:
        nodes = [node for node, has in zip(run.nodes, answered[one], strict=True) if has]
        others = (node for node in run.nodes if node not in nodes)
        more = sum(held is not None and held.may_be_of(node, process[one], complete[one]) for node in others)
        if len(nodes) + more < needed[one]:
            yield _Early(one, tuple(nodes), int(needed[one]))


class Exchanges:
    """When a client asked a node, and was told something by it."""

    def __init__(self, sent: Ints, told: Ints) -> None:
        # What a node says unasked counts as if it had been asked for then.
        began = np.minimum(sent, told)
        order = np.argsort(began, kind="stable")
        self._sent, self._began = np.sort(sent), began[order]
        self._first_told = np.append(np.minimum.accumulate(told[order][::-1])[::-1], FOREVER_NS)

    def asked(self, invoke: Ints, complete: Ints) -> Bools:
        """Whether it asked in each of the calls."""
        return np.searchsorted(self._sent, complete, "right") > np.searchsorted(self._sent, invoke, "left")

    def answered(self, invoke: Ints, complete: Ints) -> Bools:
        """Whether an answer to that was on its way to the client when the call ended."""
        return self._first_told[np.searchsorted(self._began, invoke, "left")] <= complete


def answers_of(requests: pa.Table, nodes: Sequence[str]) -> Iterator[tuple[str, str, Exchanges]]:
    """By client process and node; `requests` as in `harness.store.wire`."""
    names = requests.select(["client", "node", "by"]).to_pandas().astype(str)
    sent, told = (
        requests[name].fill_null(FOREVER_NS).to_numpy().astype(np.int64) for name in ("from_client_ns", "to_client_ns")
    )
    own = names[(names["by"] == "client") & names["node"].isin(list(nodes))]
    for (client, node), rows in own.groupby(["client", "node"]):
        place = rows.index.to_numpy()
        yield str(client), str(node), Exchanges(sent[place], told[place])


def _needed(run: Recorded, keys: Any, asked: Ints) -> Ints:
    """By acquire, how many nodes must have answered: a majority of as many as most acquires of its key ask."""
    needed = np.zeros(len(keys), np.int64)
    for key in dict.fromkeys(keys.tolist()):
        own = keys == key
        counts = Counter(asked[own].tolist())
        usual = min(counts, key=lambda number: (-counts[number], number))
        majority = quorum(len(run.nodes_of(key)))
        needed[own] = (
            0 if not usual else 1 if run.permits > 1 else majority if usual >= majority else quorum(int(usual))
        )
    return needed


class _Change(NamedTuple):
    """The columns of the ledger that matter here."""

    since_ns: int
    at_ns: int
    what: str
    owner: int


class _Held:
    """What the nodes held of the lock's keys, by who had set it."""

    def __init__(self, run: Recorded, ledger: Ledger) -> None:
        assert run.watched is not None
        self._watched, self._ledger = run.watched, ledger
        own = where(ledger.rows, key=run.lock_keys) if run.lock_keys else ledger.rows
        changes = rows_of(own, "node", "key", *_Change._fields)
        self._changes = grouped(((node, key), _Change(*change)) for node, key, *change in changes)
        self._keys = {key for _, key in self._changes}

    def may_be_of(self, node: str, client: str, at_ns: int) -> bool:
        """Whether the node may have held a key then that this process had set, and knew of, or that was handed on to
        it. It may if what went to it is not on record."""
        if node not in self._ledger.wire.recorded or not self._watched.saw(node, at_ns, at_ns):
            return True
        return any(
            what not in _GONE and self._is_of(owner, client, at_ns)
            for key in self._keys
            for what, owner in self._there(node, key, at_ns)
        )

    def _there(self, node: str, key: str, at_ns: int) -> Iterator[tuple[str, int]]:
        """The latest change of the key by then, and all changes that may have happened by then."""
        changes = self._changes.get((node, key), [])
        later = bisect_right(changes, at_ns, key=attrgetter("at_ns"))
        for change in changes[max(later - 1, 0) :]:
            if change.since_ns > at_ns:
                return
            yield change.what, change.owner

    def _is_of(self, owner: int, client: str, at_ns: int) -> bool:
        setter = self._ledger.change(owner) if owner >= 0 else None
        if setter is None or setter["cause"] != "request":
            return True
        if setter["by"] != "client" or setter["client"] != client:
            return setter["f"] in _HANDS_ON
        return bool(0 <= setter["to_client_ns"] <= at_ns)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    nodes = case.listed("answered")
    who = f"only {nodes}" if nodes else "no node"
    return Told(
        f"The acquire of {case.text('client')} succeeded at {case.at()}, when {who} had answered it; a majority is "
        f"{case.counted('needed', 'answer')}."
    )


EARLY_GRANT: Final = FindingKind(
    "grant-before-majority",
    "lease",
    _told,
    stands_for="too few nodes",
    noun="grant(s) before a majority had answered",
    surveyed="validity",
)
