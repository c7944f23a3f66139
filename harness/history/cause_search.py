"""Which request made which change: pairs of a change and a request that can have made it, and what rules pairs out.

All pairs are numbers in columns. Rounds of elimination go on until nothing changes any more. A change with one request
left has its cause, and tells about others: what the node did before it, it did before that request was answered; a
request that changes a key once did not change it at another time; and what one connection carried was done in its
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
import pandas as pd

from harness.history.cause_orders import FREE, MOST_CHOICES, UNKNOWN, Choice, Step, possible_choices
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Bools, Ints
from harness.history.key_changes import DELETED, SET
from harness.history.key_requests import KeyRequests
from harness.history.span_join import Spans, overlapping

_ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Causes:
    """By change: how many requests can have made it, and the place in `KeyRequests` of the last of these, or -1."""

    count: Ints
    request: Ints
    pairs: tuple[Ints, Ints]
    """The changes and requests that are left."""


def find_causes(
    changes: pd.DataFrame, value: Ints, was: Ints, requests: KeyRequests, watched: Mapping[str, tuple[Ints, Ints]]
) -> Causes:
    """`value`, `was`: the codes of what each key held after each change and before it, -1 if it is not known.
    `watched`: by node, when everything that it did was seen."""
    search = _Search(changes, value, was, requests, watched)
    change, request = search.named()
    for rule_out in (search.eliminate, search.settle, search.eliminate):
        left = rule_out(change, request)
        change, request = change[left], request[left]
    missing = np.bincount(change, minlength=len(changes)) == 0
    missing &= (changes["what"] != "expired").to_numpy(bool)
    if missing.any():
        more = search.unusual(np.flatnonzero(missing))
        change, request = (np.concatenate(pair) for pair in zip((change, request), more, strict=True))
        left = search.eliminate(change, request)
        change, request = change[left], request[left]
    count = np.bincount(change, minlength=len(changes))
    last = np.full(len(changes), -1)
    last[change] = request
    return Causes(count, last, (change, request))


class _Search:
    def __init__(
        self,
        changes: pd.DataFrame,
        value: Ints,
        was: Ints,
        requests: KeyRequests,
        watched: Mapping[str, tuple[Ints, Ints]],
    ) -> None:
        self.node = changes["node"].cat.codes.to_numpy(np.int64)
        self.key = changes["key"].cat.codes.to_numpy(np.int64)
        self.since_ns, self.at_ns = (changes[name].to_numpy(np.int64) for name in ("since_ns", "at_ns"))
        self.may_be = np.where((changes["what"] == "expired").to_numpy(bool), 0, changes["may_be"].to_numpy(np.int64))
        self.is_text = (self.may_be == SET) & (value >= 0)
        self.value, self.was, self.requests = value, was, requests
        names = list(changes["node"].cat.categories)
        must_show = requests.is_certain & np.isin(requests.can, (SET, DELETED))
        for number, name in enumerate(names):
            own = requests.node == number
            since_ns, until_ns = watched.get(name, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
            place = np.searchsorted(since_ns, requests.from_ns[own], "right") - 1
            must_show[own] &= (place >= 0) & (requests.to_ns[own] <= np.append(until_ns, -1)[place])
        self.must_show = must_show
        """The requests of which a change must tell."""

    def named(self) -> tuple[Ints, Ints]:
        """The requests that name the key and can do this, by what they can have done and by the time."""
        asked = self.requests
        keys = int(max(self.key.max(initial=0), asked.key.max(initial=0))) + 1
        wanted = np.flatnonzero(self.may_be)
        group_of_change = self.node[wanted] * keys + self.key[wanted]
        group_of_request = asked.node[asked.request] * keys + asked.key
        change, request = overlapping(
            Spans(group_of_change, self.since_ns[wanted], self.at_ns[wanted]),
            Spans(group_of_request, asked.from_ns[asked.request], asked.to_ns[asked.request]),
        )
        change, request = wanted[change], asked.request[request]
        can = (self.may_be[change] & asked.can[request]) > 0
        value = asked.value[request]
        can &= (value < 0) | ~self.is_text[change] | (value == self.value[change])
        was = asked.value_was[request]
        can &= (was < 0) | (self.was[change] < 0) | (was == self.was[change])
        return change[can], request[can]

    def unusual(self, missing: Ints) -> tuple[Ints, Ints]:
        """For changes without a request that makes such changes as a rule: those that change keys they do not name, and
        those that name the key and make such changes rarely."""
        asked = self.requests
        pairs: list[tuple[int, int]] = []
        named: dict[tuple[int, int], list[int]] = {}
        for request, key in zip(asked.request.tolist(), asked.key.tolist(), strict=True):
            named.setdefault((int(asked.node[request]), key), []).append(request)
        for change in missing.tolist():
            any_key = np.flatnonzero(
                asked.any_key & (asked.node == self.node[change]) & ((asked.can & self.may_be[change]) > 0)
            )
            own = np.array(named.get((int(self.node[change]), int(self.key[change])), []), np.int64)
            some = np.union1d(any_key, own[(asked.rarely[own] & self.may_be[change]) > 0])
            when = (asked.from_ns[some] <= self.at_ns[change]) & (asked.to_ns[some] >= self.since_ns[change])
            pairs += [(change, request) for request in some[when].tolist()]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def eliminate(self, change: Ints, request: Ints) -> Bools:
        """Which of the pairs are left."""
        asked = self.requests
        left = np.ones(len(change), bool)
        start, end = asked.from_ns[request], asked.to_ns[request]
        for _ in range(_ROUNDS):
            before = int(left.sum())
            count = np.bincount(change[left], minlength=len(self.node))
            if (count <= 1).all():
                break
            is_sure = left & (count[change] == 1)
            since_ns, at_ns = self._tightened(change[left], start[left], end[left])
            left &= is_sure | ((end >= since_ns[change]) & (start <= at_ns[change]))
            left &= is_sure | ~self._has_done(change, request, is_sure)
            left &= self._must_be(change, request, left)
            left &= is_sure | self._keeps_order(change, request, is_sure, left)
            if int(left.sum()) == before:
                break
        return left

    def settle(self, change: Ints, request: Ints) -> Bools:
        """Which of the pairs are left when every way is tried in which the changes of a key can have come about."""
        left = np.ones(len(change), bool)
        count = np.bincount(change, minlength=len(self.node))
        if (count <= 1).all():
            return left
        since_ns, at_ns = self._tightened(change, self.requests.from_ns[request], self.requests.to_ns[request])
        of_change: dict[int, list[int]] = {}
        for pair in np.argsort(change, kind="stable").tolist():
            of_change.setdefault(int(change[pair]), []).append(pair)
        places: dict[int, int] = dict(Counter(request.tolist()))
        keys = int(self.key.max(initial=0)) + 1
        chain = np.argsort(self.node * keys + self.key, kind="stable")
        groups = np.flatnonzero(np.diff((self.node * keys + self.key)[chain])) + 1
        for rows in np.split(chain, groups):
            for run in _runs(count[rows] > 1):
                if count[rows[run]].sum() > MOST_CHOICES:
                    continue
                steps = [
                    Step(
                        int(since_ns[row]),
                        int(at_ns[row]),
                        self._after(row),
                        tuple(self._choice(int(request[pair]), places) for pair in of_change.get(int(row), ())),
                    )
                    for row in rows[run]
                ]
                before = rows[run.start - 1] if run.start else -1
                possible = possible_choices(steps, self._after(before) if before >= 0 else UNKNOWN)
                if possible is not None:
                    for row, requests in zip(rows[run].tolist(), possible, strict=True):
                        for pair in of_change.get(row, ()):
                            left[pair] = int(request[pair]) in requests
        return left

    def _after(self, row: int) -> int:
        """The code of what the key holds after the change."""
        return FREE if self.may_be[row] in (0, DELETED) else int(self.value[row])

    def _choice(self, request: int, places: dict[int, int]) -> Choice:
        asked = self.requests
        return Choice(
            request,
            int(asked.connection[request]),
            int(asked.from_ns[request]),
            int(asked.to_ns[request]),
            int(asked.value[request]),
            int(asked.value_was[request]),
            bool(asked.is_single[request]),
            bool(self.must_show[request]),
            places[request],
        )

    def _tightened(self, change: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """When the node made each change: none of its requests came before, or was answered after that; and it made
        those before it earlier, and those after it later."""
        first, last = np.full(len(self.node), FOREVER_NS), np.full(len(self.node), -FOREVER_NS)
        np.minimum.at(first, change, start)
        np.maximum.at(last, change, end)
        has_any = last > -FOREVER_NS
        since_ns = np.where(has_any, np.maximum(self.since_ns, first), self.since_ns)
        at_ns = np.where(has_any, np.minimum(self.at_ns, last), self.at_ns)
        for node in range(int(self.node.max(initial=-1)) + 1):
            own = np.flatnonzero(self.node == node)
            since_ns[own] = np.maximum.accumulate(since_ns[own])
            at_ns[own] = np.minimum.accumulate(at_ns[own][::-1])[::-1]
        return since_ns, at_ns

    def _has_done(self, change: Ints, request: Ints, is_sure: Bools) -> Bools:
        """Whether the request is known to have changed this key at another time, and does so once."""
        keys = int(self.key.max(initial=0)) + 1
        whole = request * keys + self.key[change]
        return self.requests.is_single[request] & np.isin(whole, whole[is_sure])

    def _must_be(self, change: Ints, request: Ints, left: Bools) -> Bools:
        """Without the pairs of a change that tells of another request, which no other change can tell of."""
        keys = int(self.key.max(initial=0)) + 1
        some = np.flatnonzero(left & self.must_show[request])
        _, first, times = np.unique(
            request[some] * keys + self.key[change[some]], return_index=True, return_counts=True
        )
        forced = some[first[times == 1]]
        taken, number = np.unique(change[forced], return_counts=True)
        is_forced = np.zeros(len(change), bool)
        is_forced[forced] = True
        return is_forced | ~np.isin(change, taken[number == 1])

    def _keeps_order(self, change: Ints, request: Ints, is_sure: Bools, left: Bools) -> Bools:
        """Whether the pair is in the order of its connection, seen from the pairs that are sure. Requests of a
        connection are numbered in the order in which it carried them."""
        keeps = np.ones(len(change), bool)
        connection = self.requests.connection[request]
        open_pairs = np.flatnonzero(left & ~is_sure)
        for number in np.unique(connection[open_pairs]):
            sure = np.flatnonzero(is_sure & (connection == number))
            if not len(sure):
                continue
            sure = sure[np.argsort(change[sure], kind="stable")]
            own = open_pairs[connection[open_pairs] == number]
            at = np.searchsorted(change[sure], change[own])
            low = np.append(-1, np.maximum.accumulate(request[sure]))[at]
            high = np.append(np.minimum.accumulate(request[sure][::-1])[::-1], len(self.requests.row))[at]
            keeps[own] = (request[own] >= low) & (request[own] <= high)
        order = open_pairs[keeps[open_pairs]]
        order = order[np.argsort(change[order], kind="stable")]
        for pairs, sign in ((order, 1), (order[::-1], -1)):
            keeps[self._overtaking(pairs[keeps[pairs]], change, request * sign)] = False
        return keeps

    def _overtaking(self, pairs: Ints, change: Ints, request: Ints) -> Ints:
        """Those of the pairs whose request would have come before that of an earlier change, whichever that was."""
        asked = self.requests
        is_single = asked.is_single[abs(request[pairs])]
        repeated = np.unique(change[pairs[~is_single]])  # a request that may be done again has no place in the order
        pairs = pairs[is_single]
        found: list[int] = []
        least: dict[int, int] = {}
        columns = (pairs, change[pairs], request[pairs], asked.connection[abs(request[pairs])])
        may_repeat = set(repeated.tolist())
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for place, group in groupby(rows, key=itemgetter(1)):
            first: dict[int, int] = {}
            for pair, _, number, connection in group:
                if number <= least.get(connection, -FOREVER_NS):
                    found.append(pair)
                else:
                    first[connection] = min(number, first.get(connection, number))
            if len(first) == 1 and place not in may_repeat:
                least.update(first)
        return np.array(found, np.int64)


def _runs(is_open: Bools) -> Iterator[slice]:
    """The places from one open one to the last that has no more than one other in between, and one more: what came
    next may tell."""
    places = np.flatnonzero(is_open)
    if len(places):
        for part in np.split(places, np.flatnonzero(np.diff(places) > 2) + 1):
            yield slice(int(part[0]), int(part[-1]) + 2)
