"""Attempts that a majority of the nodes granted, and that the lock refused all the same.

A correct lock may do so if its validity was used up, if replies came later than it waits for them, if its time to
acquire was over, or if it needs more than these replies. So an attempt counts only if all of this was so:

- on a majority of the nodes it set a key of the lock, by the kind of request with which acquires end that are granted,
  and each of these nodes had answered every request with its value as nodes answer those; no reply took longer than
  half of the time that a reply took without which some acquire would not have been granted;
- the lock had sent nothing else meanwhile, but what makes a connection, when it undid the attempt, or its call ended;
- that was within `SHARE` of a lease since the attempt began, or since the call did if this was its last attempt (and
  then within the time that the lock is told to wait);
- no fault hit these nodes, the client, or its links to them; the client had a processor and a right clock, and no user
  cancelled the call.

This is told of a lock that did so `LEAST` times, to two clients or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import listed, printable
from harness.explain.words import at, lasting
from harness.history.commands import CONNECT, SCRIPTED
from harness.history.fault_windows import hits_link, longest_windows
from harness.history.groups import Bools
from harness.history.ledger import Change, Ledger
from harness.history.node_requests import Request
from harness.history.recorded import Recorded
from harness.history.sent_after import SLACK_NS

LEAST: Final = 3
SHARE: Final = 1 / 4
_MANY: Final = 100
"""How many granted acquires are looked at to learn how they end."""
_CONNECTING: Final = frozenset({*CONNECT, "SCRIPT"})


class RefusedMajority(NamedTuple):
    """An attempt of the client that these nodes had granted by `granted_ns`, the first of which it had asked at
    `asked_ns`, and which the lock undid, or its call ended, at `refused_ns`."""

    client: str
    key: str
    nodes: tuple[str, ...]
    asked_ns: int
    granted_ns: int
    refused_ns: int

    def in_words(self, run: Recorded) -> str:
        """`n1 and n2, a majority, granted the lock to c1 by +56.0 ms, 4 ms after its first request, but the acquire was
        refused at +57.0 ms`."""
        return (
            f"{listed(self.nodes)}, a majority, granted the lock to {printable(self.client)} by "
            f"{at(run, self.granted_ns)}, {lasting(self.granted_ns - self.asked_ns)} after its first request, but the "
            f"acquire was refused at {at(run, self.refused_ns)}"
        )


def refused_majority(run: Recorded, key: str, since_ns: int, until_ns: int) -> RefusedMajority | None:
    """The first one for this key and within this time, if the lock does so."""
    ledger = run.whole_ledger
    if ledger is None or run.owners is None or not run.is_exclusive or "shared" in run.sections:
        return None
    every = sorted(_Attempts.of(run, ledger).found(), key=lambda one: one.asked_ns)
    if len(every) < LEAST or len({process_of(one.client) for one in every}) == 1:
        return None
    own = (one for one in every if one.key == key and since_ns <= one.asked_ns and one.refused_ns <= until_ns)
    return next(own, None)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """`keys`: the lock's own name of each of its keys on the nodes. `yes`: the commands that set a key in acquires that
    were granted, and the replies. `last`: the kind of request with which most of these ended. `soon_ns`: the lock
    surely waits for replies that take no longer."""

    run: Recorded
    ledger: Ledger
    keys: dict[str, str]
    yes: frozenset[tuple[str, str]]
    last: tuple[str, str] | None
    soon_ns: float

    @classmethod
    def of(cls, run: Recorded, ledger: Ledger) -> _Attempts:
        assert run.owners is not None
        holdings = run.owners.holdings
        held = holdings[(holdings["section"] >= 0).to_numpy(bool)]
        keys = dict(zip(held["key"].astype(str), held["lock_key"].astype(str), strict=True))
        rows = ledger.rows
        granted = rows[_of_acquires(ledger, keys, "ok") & (rows["to_client_ns"] >= 0).to_numpy(bool)]
        yes = frozenset(zip(granted["command"].astype(str), granted["reply"].astype(str), strict=True))
        return cls(run, ledger, keys, yes, _last(run, ledger, granted), _needed_ns(run, keys, granted) / 2)

    def found(self) -> Iterator[RefusedMajority]:
        """In the order of their calls."""
        rows = np.flatnonzero(_of_acquires(self.ledger, self.keys, "fail"))
        changes = sorted(map(self.ledger.change, rows.tolist()), key=lambda one: (one["call"], one["from_client_ns"]))
        for _, of_call in groupby(changes, key=lambda one: one["call"]):
            rounds = list(_rounds(list(of_call)))
            found = (self._refused(tried, is_last=tried is rounds[-1]) for tried in rounds)
            yield from (one for one in found if one is not None)

    def _refused(self, tried: Sequence[Change], *, is_last: bool) -> RefusedMajority | None:
        """`tried`: what one attempt set, with one value."""
        first, run = tried[0], self.run
        client, key, value = str(first["task"]), self.keys[first["key"]], first["value"]
        nodes, majority = run.nodes_of(key), quorum(len(run.nodes_of(key)))
        if value is None or len({one["node"] for one in tried}) < majority:
            return None
        asked_ns, began_ns = int(first["from_client_ns"]), int(first["invoke_ns"])
        sent = {node: self.ledger.sent.between(client, node, asked_ns, int(first["complete_ns"])) for node in nodes}
        request = sent[str(first["node"])][0]
        if _kind(request) != self.last:
            return None
        every = (one for of_node in sent.values() for one in of_node if one.command not in _CONNECTING)
        others = [one for one in every if one.but_keys != request.but_keys or value not in one.arguments]
        refused_ns = min((one.from_client_ns for one in others), default=int(first["complete_ns"]))
        if any(one.from_client_ns == refused_ns and value not in one.arguments for one in others):
            return None
        asked = {node: [one for one in some if one.from_client_ns < refused_ns] for node, some in sent.items()}
        granted = {
            str(one["node"]): int(one["to_client_ns"])
            for one in tried
            if self._is_granted(one, asked[str(one["node"])], refused_ns)
        }
        if len(granted) < majority or self._may_have_a_reason(client, granted, began_ns, refused_ns):
            return None
        lasted_ns = refused_ns - (began_ns if is_last else asked_ns)
        limit_ns = SHARE * run.lease_ms * 1e6
        if is_last and run.config.wait_ms:
            limit_ns = min(limit_ns, run.config.wait_ms * 1e6)
        if lasted_ns > limit_ns:
            return None
        return RefusedMajority(client, key, tuple(sorted(granted)), asked_ns, max(granted.values()), refused_ns)

    def _is_granted(self, change: Change, asked: Sequence[Request], by_ns: int) -> bool:
        """Whether the node had said yes by then, soon, and to all that it was `asked` with this value."""
        heard_ns, took_ns = int(change["to_client_ns"]), int(change["to_client_ns"]) - int(change["from_client_ns"])
        said = [(one.command, one.reply) for one in asked if change["value"] in one.arguments]
        return 0 <= heard_ns <= by_ns and took_ns <= self.soon_ns and bool(said) and self.yes.issuperset(said)

    def _may_have_a_reason(self, client: str, nodes: dict[str, int], since_ns: int, until_ns: int) -> bool:
        run = self.run
        calls = ((call.since_ns, call.at_ns) for call in run.cancelled if call.client == client)
        if any(since <= until_ns and until >= since_ns for since, until in (*run.waits_of(client), *calls)):
            return True
        return run.wrong_clocks.mislead(client, since_ns, until_ns) or any(
            client in event.halted_clients or any(hits_link(event, client, node) for node in nodes)
            for event, began, done in longest_windows(run.faults)
            if began <= until_ns and done >= since_ns - SLACK_NS
        )


def _needed_ns(run: Recorded, keys: dict[str, str], granted: pd.DataFrame) -> int:
    """How long the slowest reply took without which an acquire would not have been granted: the last one of the fastest
    majority. `granted`: what those acquires set."""
    took = (granted["to_client_ns"] - granted["from_client_ns"]).groupby(
        [granted["call"], granted["key"]], observed=True
    )
    majorities = ((own, quorum(len(run.nodes_of(keys[str(key)])))) for (_, key), own in took)
    return max((int(own.nsmallest(least).iloc[-1]) for own, least in majorities if len(own) >= least), default=-1)


def _of_acquires(ledger: Ledger, keys: dict[str, str], outcome: str) -> Bools:
    """By change, whether an acquire that ended so set one of these keys."""
    rows = ledger.rows
    own = (rows["what"] == "set") & (rows["f"] == "acquire") & (rows["outcome"] == outcome) & rows["is_in_call"]
    own &= (rows["request"] >= 0) & (rows["by"] == "client") & rows["key"].isin(list(keys)) & rows["task"].notna()
    found: Bools = own.to_numpy(bool)
    return found


def _rounds(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """The attempts of one call: each sets one value, and a key on each node once."""
    tried: list[Change] = []
    for one in changes:
        if tried and (one["value"] != tried[0]["value"] or one["node"] in {each["node"] for each in tried}):
            yield tried
            tried = []
        tried.append(one)
    if tried:
        yield tried


def _last(run: Recorded, ledger: Ledger, granted: pd.DataFrame) -> tuple[str, str] | None:
    """The kind of request that named the value last in most acquires that were granted. `granted`: what they set."""
    last: Counter[tuple[str, str]] = Counter()
    for _, own in islice(granted.groupby("call"), _MANY):
        client, value, since_ns, until_ns = own[["task", "value", "invoke_ns", "complete_ns"]].iloc[-1]
        sent = (one for node in run.nodes for one in ledger.sent.between(client, node, since_ns, until_ns))
        about = max((one for one in sent if value in one.arguments), key=lambda one: one.from_client_ns, default=None)
        if about is not None:
            last[_kind(about)] += 1
    ((kind, _),) = last.most_common(1) or ((None, 0),)
    return kind


def _kind(one: Request) -> tuple[str, str]:
    """The command, and its script if it has one."""
    return one.command, one.arguments[0] if one.command in SCRIPTED and one.arguments else ""
