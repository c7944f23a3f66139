"""When a client sent anything to the nodes, or received anything from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.change_causes import WireRecord
from harness.history.commands import BLOCK_ON_LISTS, BLOCKING
from harness.history.error_replies import ERROR_REPLY
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints, where

_TIMES: Final = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")


def time_limit_ns(command: str, arguments: Sequence[str]) -> int:
    """For how long a client asked to be blocked on a list; 0 if the request is another one."""
    if command not in BLOCK_ON_LISTS or not arguments:
        return 0
    try:
        seconds = float(arguments[0 if command == "BLMPOP" else -1])
    except ValueError:
        return 0
    return round(seconds * 1e9) if 0 < seconds < FOREVER_NS / 1e9 else FOREVER_NS


@dataclass(frozen=True)
class Activity:
    """The requests of one client process, in the order in which they were sent. A time that never came is -1.
    `closed_ns`: by connection, when the client or the proxy closed it. `lost_ns`: when its node or the proxy closed
    one, or the node of one could not be reached."""

    requests: pd.DataFrame
    closed_ns: dict[int, int]
    lost_ns: Ints

    @cached_property
    def sent_ns(self) -> Ints:
        return self._times("from_client_ns")

    @cached_property
    def moments_ns(self) -> Ints:
        """When it sent or heard something, in order."""
        return np.sort(np.concatenate([self.sent_ns, self._times("to_client_ns")]))

    def _times(self, name: str) -> Ints:
        times: Ints = self.requests[name].to_numpy(np.int64)
        return np.sort(times[times >= 0])

    def answered(self, since_ns: int, until_ns: int, node: str = "") -> int:
        """How many requests it sent in this time, to this node or any, and had answered, not with an error."""
        rows = where(self.requests, node=node) if node else self.requests
        within = (rows["from_client_ns"] >= since_ns) & (rows["to_client_ns"] <= until_ns) & (rows["to_client_ns"] >= 0)
        errors = rows["reply"].str.startswith(ERROR_REPLY).fillna(value=False)
        return int((within & ~errors).sum())

    def asked(self, since_ns: Ints, until_ns: Ints) -> npt.NDArray[np.float64]:
        """How many requests it sent in each of these times to the node that it asked most often; without end while a
        server lets it wait."""
        rows = where(self.requests, self.requests["from_client_ns"] >= 0)
        times = [np.sort(own.to_numpy(np.int64)) for _, own in rows.groupby("node")["from_client_ns"]]
        counts = [np.searchsorted(sent, until_ns) - np.searchsorted(sent, since_ns) for sent in times]
        most = np.max(counts, axis=0, initial=0) if counts else np.zeros(len(since_ns))
        waits = rows[rows["command"].isin(BLOCKING)]
        closed_ns = waits["connection"].map(self.closed_ns).fillna(FOREVER_NS)
        heard_ns = np.sort(waits["to_client_ns"].where(waits["to_client_ns"] >= 0, closed_ns).to_numpy(np.int64))
        begun_ns = np.sort(waits["from_client_ns"].to_numpy(np.int64))
        is_blocked = np.searchsorted(begun_ns, until_ns) > np.searchsorted(heard_ns, since_ns, "right")
        return np.where(is_blocked, np.inf, most)

    @cached_property
    def _rows(self) -> Ints:
        """Of its requests, in the order of `sent_ns`."""
        times = self.requests["from_client_ns"].to_numpy(np.int64)
        order = np.argsort(times, kind="stable")
        return order[times[order] >= 0]

    def last_sent(self, since_ns: int, by_ns: int) -> str | None:
        """The command that it sent last in this time; None if it sent none."""
        place = int(np.searchsorted(self.sent_ns, by_ns, "right")) - 1
        is_one = place >= 0 and self.sent_ns[place] >= since_ns
        return str(self.requests["command"].iloc[self._rows[place]]) if is_one else None

    def last_look_ns(self, since_ns: int, by_ns: int) -> int:
        """When a node answered the last request that it had sent since then and was told of by this time, and that asks
        for a key; 0 if it sent none."""
        rows = where(self.requests, self.requests["from_client_ns"] >= since_ns)
        rows = where(rows, rows["to_client_ns"].between(0, by_ns))
        looks = where(rows, rows["keys"].map(len) > 0, ~rows["command"].isin(BLOCKING))
        return 0 if looks.empty else int(looks["from_node_ns"].max())

    def blocked_until_ns(self, at_ns: int) -> int:
        """Until when it was blocked on a list, by its own time limit, with what it had sent last; 0 if it was not."""
        place = int(np.searchsorted(self.sent_ns, at_ns, "right")) - 1
        if place < 0:
            return 0
        row = self.requests.iloc[self._rows[place]]
        limit_ns = time_limit_ns(row["command"], row["arguments"])
        is_answered = 0 <= row["to_client_ns"] <= at_ns
        return 0 if is_answered or not limit_ns else int(row["from_client_ns"]) + limit_ns

    def failed(self, since_ns: int, until_ns: int) -> bool:
        """Whether in this time a request of it was answered with an error, or not at all, or a connection was lost or
        could not be made: then it may wait for a while before it tries again."""
        rows = self.requests
        is_answered = (rows["to_client_ns"] >= 0).to_numpy(bool)
        closed_ns = rows["connection"].map(self.closed_ns).fillna(FOREVER_NS)
        done_ns = rows["to_client_ns"].where(is_answered, closed_ns).to_numpy(np.int64)
        sent_ns = rows["from_client_ns"].to_numpy(np.int64)
        is_error = rows["reply"].str.startswith(ERROR_REPLY).fillna(value=False).to_numpy(bool)
        is_failed = is_error | ~is_answered & ~rows["command"].isin(BLOCKING).to_numpy(bool)
        is_within = (sent_ns >= 0) & (sent_ns <= until_ns) & (done_ns >= since_ns)
        is_lost = (self.lost_ns >= since_ns) & (self.lost_ns <= until_ns)
        return bool((is_failed & is_within).any() or is_lost.any())

    def keys(self, since_ns: int) -> set[str]:
        """The keys of the requests that it sent from then on, as the nodes call them."""
        rows = where(self.requests, self.requests["from_client_ns"] >= since_ns)
        return {str(key) for keys in rows["keys"] for key in keys}

    def is_stuck(self, since_ns: int, at_ns: int) -> bool:
        """Whether what went last over one of its connections, sent or heard since the first time, was on its way in
        the proxy at the second, or the node owed an answer to a request that does not block: then it is not known to be
        the client that says nothing."""
        rows = self.requests
        first = rows[list(_TIMES)].where(rows[list(_TIMES)] >= 0).min(axis=1)
        last = where(rows, first.between(since_ns, at_ns)).groupby("connection").tail(1)
        lost = (last["from_node_ns"] < 0) & ((last["to_node_ns"] < 0) | ~last["command"].isin(BLOCKING))
        lost |= (last["from_node_ns"] >= 0) & (last["to_client_ns"] < 0)
        closed = [self.closed_ns.get(connection, FOREVER_NS) <= at_ns for connection in last["connection"]]
        return bool((lost & ~np.array(closed, bool)).any())


@dataclass(frozen=True, slots=True)
class Links:
    """What went over the links, by client."""

    wire: WireRecord
    _known: dict[str, Activity] = field(default_factory=dict)

    def of(self, client: str) -> Activity:
        """That of the client, or of the process that it is a task of."""
        process = process_of(client)
        if process not in self._known:
            self._known[process] = self._read(process)
        return self._known[process]

    def _read(self, process: str) -> Activity:
        requests, connections = self.wire.requests, self.wire.connections
        own = pc.and_(pc.equal(requests["client"], process), pc.equal(requests["by"], "client"))
        own = pc.and_(own, pc.not_equal(requests["node"], "resource"))
        rows = requests.filter(own)
        columns = {name: rows[name].fill_null(-1).to_numpy() for name in ("connection", *_TIMES)}
        texts = {name: rows[name].to_pylist() for name in ("node", "command", "keys", "arguments", "task")}
        texts["reply"] = pd.Series(rows["reply"].to_pylist(), dtype="string")
        frame = pd.DataFrame({**columns, **texts})
        own = pc.and_(pc.equal(connections["client"], process), pc.equal(connections["by"], "client"))
        connections = connections.filter(pc.and_(own, pc.not_equal(connections["node"], "resource")))
        closed_ns = pc.min_element_wise(connections["client_closed_ns"], connections["proxy_closed_ns"])
        closed = connections.append_column("closed_ns", closed_ns).filter(closed_ns.is_valid())
        pairs = zip(closed["connection"].to_pylist(), closed["closed_ns"].to_pylist(), strict=True)
        return Activity(frame, dict(pairs), _lost_ns(connections))


def _lost_ns(table: pa.Table) -> Ints:
    names = ("client_closed_ns", "node_closed_ns", "proxy_closed_ns")
    by_client, by_node, by_proxy = (table[name].fill_null(FOREVER_NS).to_numpy() for name in names)
    is_reached = table["is_reached"].to_numpy(zero_copy_only=False)
    lost_ns = np.where(is_reached, np.minimum(by_node, by_proxy), table["opened_ns"].to_numpy())
    found: Ints = lost_ns[~is_reached | (lost_ns < by_client)]
    return found
