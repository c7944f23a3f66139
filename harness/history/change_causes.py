"""Which request on record changed a key: the node told its connection and its words (`cluster.key_causes`).

A node tells the port from which it was asked, a digest of the request's words, and the place of the request among those
of that port. The record of the links has the port of each connection, and its requests in order. So the request is the
one with these words which was under way at that time; of several such, as when a client polls, the place decides. Nodes
do not tell of every request (a login, one that they refuse), so places only count from a request that is known.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints

NONE: Final = -1
_WORDS_APART: Final = "\0"


@dataclass(frozen=True, slots=True)
class WireRecord:
    """What went over the links: `requests` and `connections` as in `harness.store.wire`. `recorded`: the nodes of whose
    requests none is missing."""

    requests: pa.Table
    connections: pa.Table
    recorded: frozenset[str]


@dataclass(frozen=True, slots=True)
class ChangeRequests:
    """By change, the place of its request in the table of requests, and of its connection in that of connections; -1 if
    it has none, or if it is not known which of the same words it was."""

    request: Ints
    connection: Ints


def find_causes(changes: pd.DataFrame, wire: WireRecord) -> ChangeRequests:
    """`changes`: those of `harness.history.key_changes`."""
    request = np.full(len(changes), NONE)
    connection = _connections(changes, wire.connections)
    number = np.append(wire.connections["connection"].to_numpy().astype(np.int64), NONE)
    change = np.flatnonzero(connection != NONE)
    asked = _Asked.of(wire.requests, np.unique(number[connection[change]]))
    pairs = asked.with_same_words(number[connection[change]], changes["digest"].to_numpy(np.int64)[change])
    at, row = change[pairs[0]], pairs[1]
    since_ns, at_ns = (changes[name].to_numpy(np.int64)[at] for name in ("since_ns", "at_ns"))
    is_under_way = (asked.to_node_ns[row] <= at_ns) & (asked.from_node_ns[row] >= since_ns)
    at, row = at[is_under_way], row[is_under_way]
    is_one = np.bincount(at, minlength=len(changes))[at] == 1
    request[at[is_one]] = asked.row[row[is_one]]
    if not is_one.all():
        place, port = changes["place"].to_numpy(np.int64), connection
        _by_place(request, at, row, is_one, asked, place, port)
    # One that is not there is no cause: another program may have dialled from this port.
    connection[np.bincount(at, minlength=len(changes)) == 0] = NONE
    return ChangeRequests(request, connection)


def _connections(changes: pd.DataFrame, connections: pa.Table) -> Ints:
    """The place of the connection that was opened last from the port at which the node was asked."""
    known = connections.select(["node", "node_port", "opened_ns"]).to_pandas()
    known = known.assign(place=np.arange(len(known)), node=known["node"].astype(str)).dropna(subset=["node_port"])
    known = known.astype({"node_port": np.int64}).sort_values("opened_ns", kind="stable")
    asked = changes[["node", "port", "at_ns"]].astype({"node": str}).reset_index(drop=True)
    asked = asked.assign(row=np.arange(len(asked)))[asked["port"] > 0].sort_values("at_ns", kind="stable")
    found = np.full(len(changes), NONE)
    if len(known) and len(asked):
        both = pd.merge_asof(
            asked,
            known,
            left_on="at_ns",
            right_on="opened_ns",
            left_by=["node", "port"],
            right_by=["node", "node_port"],
        )
        found[both["row"].to_numpy(np.int64)] = both["place"].fillna(NONE).to_numpy(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """The requests of some connections that reached their nodes. `row`: the place in the table. `place`: among the
    requests of its connection. Requests of a transaction are carried out, and answered, with its EXEC."""

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
        return cls(row, connection[row], place, _digests(own), to_node[row], _answered(own))

    def with_same_words(self, connection: Ints, digest: Ints) -> tuple[Ints, Ints]:
        """Pairs of a place in these columns and a place in the requests."""
        wanted = pd.DataFrame({"connection": connection, "digest": digest, "wanted": np.arange(len(digest))})
        known = pd.DataFrame({"connection": self.connection, "digest": self.digest, "known": np.arange(len(self.row))})
        both = wanted.merge(known, on=["connection", "digest"])
        return both["wanted"].to_numpy(np.int64), both["known"].to_numpy(np.int64)


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


def _answered(requests: pa.Table) -> Ints:
    """When the node had answered each of them, or the EXEC of its transaction."""
    answered: Ints = requests["from_node_ns"].fill_null(FOREVER_NS).to_numpy().copy()
    in_transaction = np.flatnonzero(requests["transaction"].is_valid().to_numpy(zero_copy_only=False))
    if len(in_transaction):
        some = requests.select(["connection", "transaction"]).take(pa.array(in_transaction)).to_pandas()
        some["answered"] = answered[in_transaction]
        last = some.groupby(["connection", "transaction"])["answered"].transform("last")
        answered[in_transaction] = last.to_numpy(np.int64)
    return answered


def _by_place(request: Ints, at: Ints, row: Ints, is_one: Any, asked: _Asked, place: Ints, connection: Ints) -> None:
    """Of changes with several requests of the same words, the one whose place fits the nearest request that is known on
    the same connection, before or after it."""
    anchors: dict[int, list[tuple[int, int]]] = {}
    for change, known in zip(at[is_one].tolist(), row[is_one].tolist(), strict=True):
        anchors.setdefault(int(connection[change]), []).append((int(place[change]), int(asked.place[known])))
    options: dict[int, list[int]] = {}
    for change, candidate in zip(at[~is_one].tolist(), row[~is_one].tolist(), strict=True):
        options.setdefault(change, []).append(candidate)
    for change, candidates in options.items():
        own = int(place[change])
        near = sorted(anchors.get(int(connection[change]), []), key=lambda anchor: abs(anchor[0] - own))[:2]
        for told, known in near:
            fitting = [one for one in candidates if int(asked.place[one]) - known == own - told]
            if fitting:
                request[change] = asked.row[fitting[0]]
                break
