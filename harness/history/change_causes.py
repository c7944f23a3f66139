"""Which request on record changed a key: the node reported the connection and the command (`cluster.key_causes`).

A node tells the port from which it was asked, a digest of the request's words, and the place of the request among those
of that port. The record of the links has the port of each connection, and its requests in order. So the request is the
one with these words which was under way at that time; of several such, as when a client polls, one whose reply says
that it did nothing is not meant, and of the others the place decides. Nodes do not tell of every request (a login, one
that they refuse), so places only count from a request that is known.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.commands import DELETE, POP_BLOCKED, REMOVE, RENEW
from harness.history.error_replies import ERROR_REPLY
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints, address, columns_of, rows_of

NONE: Final = -1
SCRIPTS: Final = b"scripts"
"""In the metadata of the table of requests: the text of each script by its SHA-1, as JSON."""
_WORDS_APART: Final = "\0"
_IDLE: Final = {
    **{"SET": "null", "SETNX": "0", "HSETNX": "0"},
    **dict.fromkeys((*DELETE, *RENEW, *REMOVE), "0"),
}
"""By command, the reply to one that did nothing. A SET with GET is answered with the former value."""
_FEW: Final = 16
"""Up to this many requests of the same words are looked at one by one; of more, the place alone decides."""


@dataclass(frozen=True, slots=True)
class WireRecord:
    """What went over the links: `requests` and `connections` as in `harness.store.wire`. `recorded`: the nodes of whose
    requests none is missing."""

    requests: pa.Table
    connections: pa.Table
    recorded: frozenset[str]

    @property
    def notes_tasks(self) -> bool:
        """Whether processes with several tasks noted which of them sent what."""
        return bool(self.requests["task"].null_count < len(self.requests))

    def scripts(self) -> dict[str, str]:
        """The text of each script by its SHA-1."""
        return scripts_of(self.requests)


@dataclass(frozen=True, slots=True)
class ChangeRequests:
    """By change, the place of its request in the table of requests, and of its connection in that of connections; -1 if
    it has none, or if it is not known which of the same words it was."""

    request: Ints
    connection: Ints


def scripts_of(requests: pa.Table) -> dict[str, str]:
    """The text of each script by its SHA-1."""
    return msgspec.json.decode((requests.schema.metadata or {}).get(SCRIPTS, b"{}"), type=dict[str, str])


def find_causes(changes: pd.DataFrame, wire: WireRecord) -> ChangeRequests:
    """`changes`: those of `harness.history.key_changes`."""
    request = np.full(len(changes), NONE)
    connection = _connections(changes, wire.connections)
    number = np.append(wire.connections["connection"].to_numpy().astype(np.int64), NONE)
    change = np.flatnonzero(connection != NONE)
    asked = _Asked.of(wire.requests, np.unique(number[connection[change]]))
    digest, since_ns, at_ns = columns_of(changes, "digest", "since_ns", "at_ns")
    options = asked.with_same_words(number[connection[change]], digest[change], since_ns[change], at_ns[change])
    options = _without_idle(options, asked, wire.requests)
    found = np.zeros(len(changes), np.int64)
    found[change] = options.number
    at, row = change[options.few], options.row
    is_one = found[at] == 1
    request[at[is_one]] = asked.row[row[is_one]]
    several = np.flatnonzero(found > 1)
    if len(several):
        anchors = _Anchors(at[is_one], row[is_one], changes["place"].to_numpy(np.int64), number[connection], asked)
        for one in several.tolist():
            for near in anchors.by_place(one):
                if asked.digest[near] == digest[one] and asked.is_under_way(near, since_ns[one], at_ns[one]):
                    request[one] = asked.row[near]
                    break
    # One that is not there is no cause: another program may have dialled from this port.
    connection[found == 0] = NONE
    for place, (asked_by, whose) in _served(changes, wire, request, connection).items():
        request[place], connection[place] = asked_by, whose
    return ChangeRequests(request, connection)


def _without_idle(options: _Options, asked: _Asked, requests: pa.Table) -> _Options:
    """Without the requests that did nothing by their replies, of changes that others may have made."""
    own = requests.select(["command", "arguments", "reply"]).take(pa.array(asked.row[options.row])).to_pylist()
    is_busy = np.array([not _is_idle(**one) for one in own], bool)
    number = np.bincount(options.few[is_busy], minlength=len(options.number))
    keep = is_busy | (number[options.few] == 0)
    return _Options(np.where(number > 0, number, options.number), options.few[keep], options.row[keep])


def _is_idle(command: str, arguments: Sequence[str], reply: str | None) -> bool:
    return reply is not None and _IDLE.get(command) == reply and "GET" not in map(str.upper, arguments)


def _served(changes: pd.DataFrame, wire: WireRecord, request: Ints, connection: Ints) -> dict[int, tuple[int, int]]:
    """By change, another request and connection than those found, where these cannot have made it: it took an element
    for a client that had been blocked. Of several such clients the node does not tell which one it served, but their
    replies do, in its order. A request without a reply may have been served."""
    places = np.flatnonzero(changes["did"].isin(POP_BLOCKED).to_numpy(bool) & (connection != NONE))
    is_pop = pc.is_in(pc.cast(wire.requests["command"], pa.string()), pa.array(POP_BLOCKED))
    rows = np.flatnonzero(is_pop.to_numpy()) if len(places) else places
    names = ("node", "keys", "reply", "connection", "to_node_ns", "from_node_ns")
    pops = dict(zip(rows.tolist(), wire.requests.select(names).take(rows).to_pylist(), strict=True))
    served: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row, pop in sorted(pops.items(), key=lambda pop: pop[1]["from_node_ns"] or 0):
        if _has_taken(pop["reply"]):
            for key in pop["keys"]:
                served[pop["node"], key].append(row)
    answered_ns = {of: [pops[row]["from_node_ns"] for row in own] for of, own in served.items()}
    number = {int(each): at for at, each in enumerate(wire.connections["connection"].to_pylist())}
    unanswered = {number[pop["connection"]] for pop in pops.values() if pop["reply"] is None}
    found, told, taken = dict[int, tuple[int, int]](), dict[tuple[str, int, int], int](), set[int]()
    columns = rows_of(changes.iloc[places], "node", "key", "port", "place", "since_ns", "at_ns")
    for change, (node, key, port, place, since_ns, at_ns) in zip(places.tolist(), columns, strict=True):
        asked, of = int(request[change]), (str(node), str(key))
        if asked != NONE and asked not in pops:
            continue  # a script, which is never blocked
        if (whose := (of[0], port, place)) not in told:
            if asked == NONE:
                is_refuted = int(connection[change]) not in unanswered
            else:
                is_refuted = asked in taken or not (pops[asked]["reply"] is None or _has_taken(pops[asked]["reply"]))
            left = served[of][bisect_left(answered_ns.get(of, []), since_ns) :] if is_refuted else []
            fits = (row for row in left if row not in taken and pops[row]["to_node_ns"] <= at_ns)
            told[whose] = next(fits, asked)
            taken.add(told[whose])
        if told[whose] != asked:
            found[change] = told[whose], number[pops[told[whose]]["connection"]]
    return found


def _has_taken(reply: str | None) -> bool:
    return reply is not None and reply != "null" and not reply.startswith(ERROR_REPLY)


def _connections(changes: pd.DataFrame, connections: pa.Table) -> Ints:
    """The place of the connection that was opened last from the port at which the node was asked."""
    known = connections.select(["node", "node_port", "opened_ns"]).to_pandas().rename(columns={"node_port": "port"})
    known = known.assign(place=np.arange(len(known)), node=known["node"].astype(str)).dropna(subset=["port"])
    known = known.astype({"port": np.int64}).sort_values("opened_ns", kind="stable")
    asked = changes[["node", "port", "at_ns"]].astype({"node": str}).reset_index(drop=True)
    asked = asked.assign(row=np.arange(len(asked)))[asked["port"] > 0].sort_values("at_ns", kind="stable")
    found = np.full(len(changes), NONE)
    if len(known) and len(asked):
        both = pd.merge_asof(asked, known, left_on="at_ns", right_on="opened_ns", by=["node", "port"])
        found[both["row"].to_numpy(np.int64)] = both["place"].fillna(NONE).to_numpy(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """The requests of some connections that reached their nodes. `row`: the place in the table. `place`: among the
    requests of its connection."""

    row: Ints
    connection: Ints
    place: Ints
    digest: Ints
    to_node_ns: Ints
    from_node_ns: Ints

    @classmethod
    def of(cls, requests: pa.Table, connections: Ints) -> _Asked:
        connection = requests["connection"].to_numpy().astype(np.int64)
        to_node = requests["to_node_ns"].fill_null(FOREVER_NS).to_numpy()
        row = np.flatnonzero(np.isin(connection, connections) & (to_node < FOREVER_NS))
        # In the order of each connection: what was sent first comes first, as it does in the table.
        row = row[np.lexsort((row, connection[row]))]
        own = requests.take(pa.array(row))
        of, first = np.unique(connection[row], return_index=True)
        place = np.arange(len(row)) - np.repeat(first, np.diff(np.append(first, len(row)))) if len(of) else row
        return cls(
            row,
            connection[row],
            place,
            _digests(own),
            to_node[row],
            own["from_node_ns"].fill_null(FOREVER_NS).to_numpy(),
        )

    def is_under_way(self, row: Any, since_ns: Any, at_ns: Any) -> Any:
        return (self.to_node_ns[row] <= at_ns) & (self.from_node_ns[row] >= since_ns)

    def with_same_words(self, connection: Ints, digest: Ints, since_ns: Ints, at_ns: Ints) -> _Options:
        """A client may send the same words a hundred thousand times. What came to the node later, and what was answered
        before, is a range of them, and is never looked at."""
        wanted, known = address((connection, self.connection), (digest, self.digest))
        order = np.argsort(known, kind="stable")
        groups, group = np.unique(known[order], return_inverse=True)
        to_node, answered = pd.Series(self.to_node_ns[order]), pd.Series(self.from_node_ns[order])
        answered_by = answered.groupby(group).cummax().to_numpy(np.int64)
        came_from = to_node[::-1].groupby(group[::-1]).cummin()[::-1].to_numpy(np.int64)
        of = np.searchsorted(groups, wanted)
        first = _found(group, answered_by, of, since_ns, "left")
        count = np.maximum(_found(group, came_from, of, at_ns, "right") - first, 0)
        count[np.append(groups, NONE)[of] != wanted] = 0
        looked = np.where(count > _FEW, 0, count)
        few = np.repeat(np.arange(len(wanted)), looked)
        row = order[np.arange(len(few)) - np.repeat(np.cumsum(looked) - looked - first, looked)]
        is_one = self.is_under_way(row, since_ns[few], at_ns[few])
        few, row = few[is_one], row[is_one]
        return _Options(np.where(count > _FEW, count, np.bincount(few, minlength=len(wanted))), few, row)


class _Options(NamedTuple):
    """Which requests may have made some changes. `number`: by change, how many. `few`, `row`: a change with at most
    `_FEW`, and one of its requests."""

    number: Ints
    few: Ints
    row: Ints


class _Anchors:
    """Changes whose requests are known, by connection and in order: they say how the places that a node tells compare
    with those on record."""

    def __init__(self, change: Ints, row: Ints, place: Ints, connection: Ints, asked: _Asked) -> None:
        self._place, self._connection = place, connection
        of, first, size = np.unique(asked.connection, return_index=True, return_counts=True)
        self._rows = {int(c): range(int(f), int(f + n)) for c, f, n in zip(of, first, size, strict=True)}
        self._known: dict[int, list[tuple[int, int]]] = {}
        for one, known in zip(change.tolist(), row.tolist(), strict=True):
            self._known.setdefault(int(connection[one]), []).append((int(place[one]), int(asked.place[known])))
        for anchors in self._known.values():
            anchors.sort()

    def by_place(self, change: int) -> Iterator[int]:
        """The requests in the place of this change, as the two nearest changes that are known tell it."""
        own, connection = int(self._place[change]), int(self._connection[change])
        anchors, rows = self._known.get(connection, []), self._rows[connection]
        at = bisect_left(anchors, (own,))
        near = sorted(anchors[max(at - 2, 0) : at + 2], key=lambda anchor: abs(anchor[0] - own))
        for told, known in near[:2]:
            if 0 <= (place := known + own - told) < len(rows):
                yield rows[place]


def _found(group: Ints, times: Ints, of: Ints, wanted: Ints, side: Literal["left", "right"]) -> Ints:
    """`np.searchsorted` within groups. `times` ascend in each group, and the groups do."""
    moments = np.unique(np.concatenate([times, wanted]))
    width = len(moments)
    line = group * width + np.searchsorted(moments, times)
    return np.searchsorted(line, of * width + np.searchsorted(moments, wanted), side)


def _digests(requests: pa.Table) -> Ints:
    """As `cluster.key_causes.digest_of`."""
    arguments = pc.binary_join(requests["arguments"], _WORDS_APART)
    command = requests["command"].cast(pa.string())
    whole = pc.binary_join_element_wise(command, arguments, _WORDS_APART)
    is_bare = pc.equal(pc.list_value_length(requests["arguments"]), 0)
    words = pc.if_else(is_bare, command, whole).combine_chunks().dictionary_encode()
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    each = np.array(
        [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in words.dictionary.to_pylist()], np.int64
    )
    return each[words.indices.to_numpy(zero_copy_only=False)] if len(words) else np.zeros(0, np.int64)
