"""The requests of a run that touched a key, from the proxy's record, in words that fit on an arrow."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fencepost.history import process_of
from harness.history.change_causes import scripts_of
from harness.history.commands import EVAL
from harness.history.error_replies import is_refusal
from harness.history.groups import Bools, Ints
from harness.store.wire import Wire

_TIMES: Final = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")
_COLUMNS: Final = (
    *("client", "node", "task", "command", "keys", "arguments", "transaction", "connection", "reply"),
    *_TIMES,
)
_VALUE_AT: Final[Mapping[str, int]] = {"SET": 1, "SETNX": 1, "PSETEX": 2, "SETEX": 2, "GETSET": 1}
_KEPT: Final = 3
"""Other commands' words after the key that a label has room for."""
_CALLED: Final = re.compile(r"redis\.p?call\(\s*['\"](\w+)['\"]", re.IGNORECASE)
_LOST_NS: Final = 1024
"""The most by which a time may differ as a floating-point number."""
_NEVER_NS: Final = 2**62
_PIPELINED_NS: Final = 1_000_000
"""What is sent so soon after something else did not wait for its reply."""
_LONGEST_KEY: Final = 16
_LONGEST_WORD: Final = 10
_LONGEST_REPLY: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class WireRequest:
    """A request of a client to a node. `row`: its place in `requests.parquet`. `transaction`: its number on the
    connection, if it was sent in one. `task`: of several in its process, if that is known. `words`: the command and all
    its arguments. `reply`: JSON; None if there was none. A time is None if that moment never came."""

    row: int
    client: str
    node: str
    connection: int
    transaction: int | None
    task: str | None
    command: str
    keys: tuple[str, ...]
    words: tuple[str, ...]
    script: str
    reply: str | None
    from_client_ns: int | None
    to_node_ns: int | None
    from_node_ns: int | None
    to_client_ns: int | None

    @property
    def sender(self) -> str:
        """The task that sent it, where that is on record; its process otherwise."""
        return self.task or self.client

    def may_be_of(self, client: str) -> bool:
        """Whether it may be this client's, or this task's."""
        return self.client == process_of(client) and (client == self.client or self.task in (None, client))

    @property
    def sent_ns(self) -> int:
        """When the client sent it; for a message that the server sent unasked, when it came."""
        return next(at for at in (self.from_client_ns, self.from_node_ns, 0) if at is not None)

    @property
    def last_ns(self) -> int:
        """The last of its moments on record."""
        return max(at for at in (self.from_client_ns, self.to_node_ns, self.from_node_ns, self.to_client_ns, 0) if at)

    @property
    def is_refused(self) -> bool:
        return is_refusal(self.reply)

    @property
    def label(self) -> str:
        """`SET k1 NX PX 500`, `EVAL k1: GET, DEL`: without the value, which only looks random."""
        command, *arguments = self.words
        if command in EVAL:
            called = list(dict.fromkeys(name.upper() for name in _CALLED.findall(self.script)))
            inside = f": {', '.join(called[:_KEPT])}" if called else ""
            return f"EVAL {' '.join(_short(key, _LONGEST_KEY) for key in self.keys[:1])}{inside}"
        value_at = _VALUE_AT.get(command)
        kept = [word for at, word in enumerate(arguments) if at != value_at]
        shown = [_short(word, _LONGEST_KEY if at == 0 else _LONGEST_WORD) for at, word in enumerate(kept)]
        return " ".join([command, *(shown if value_at is not None else shown[:_KEPT])])

    @property
    def reply_label(self) -> str:
        """`OK`, `nil`, `1`, the first word of an error; empty if there was no reply."""
        if self.reply is None:
            return ""
        if self.reply == "null":
            return "nil"
        try:
            said = json.loads(self.reply)
        except ValueError:  # it was cut off
            return _short(self.reply, _LONGEST_REPLY)
        if isinstance(said, dict) and "error" in said:
            return _short((str(said["error"]).split() or ["error"])[0], _LONGEST_REPLY)
        return _short(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False), _LONGEST_REPLY)


class WireRequests:
    """What clients asked the nodes, to be looked up by key and time."""

    def __init__(self, wire: Wire, nodes: Collection[str]) -> None:
        table = wire.requests
        self._scripts = scripts_of(table)
        self._rows = table.select(_COLUMNS)
        self._made: dict[int, WireRequest] = {}
        self._is_ours = _is_one_of(table["by"], {"client"}) & _is_one_of(table["node"], nodes)
        # As floating-point numbers some nanoseconds are lost; `on` compares the few that are left as whole ones.
        times = [table[name].to_numpy().astype(np.float64) for name in _TIMES]
        self._connection = table["connection"].to_numpy()
        self._sent, self._came = (
            table[name].fill_null(_NEVER_NS).to_numpy() for name in ("from_client_ns", "to_client_ns")
        )
        self._first, self._last = np.fmin.reduce(times), np.fmax.reduce(times)
        self.ends_ns = wire.ended_ns
        """When the record ends, if that is before the run does."""

    def __bool__(self) -> bool:
        return bool(self._is_ours.any())

    def on(self, keys: Collection[str], from_ns: int, to_ns: int) -> list[WireRequest]:
        """The requests under way at some time between the two that touched one of the keys, and those of the same
        transactions, in the order in which they were sent."""
        rows = np.flatnonzero(self._is_ours & (self._first <= to_ns + _LOST_NS) & (self._last >= from_ns - _LOST_NS))
        found = self._rows.take(pa.array(rows, pa.int64())).to_pylist()
        wanted = set(keys)
        is_mine = [bool(row["command"]) and not wanted.isdisjoint(row["keys"]) for row in found]
        blocks = {_block(row) for row, mine in zip(found, is_mine, strict=True) if mine} - {None}
        requests = [
            self._request(int(row), told)
            for row, told, mine in zip(rows, found, is_mine, strict=True)
            if mine or _block(told) in blocks
        ]
        within = [one for one in requests if one.sent_ns <= to_ns and one.last_ns >= from_ns]
        return sorted(within, key=lambda one: one.sent_ns)

    def by_time(self) -> tuple[Ints, Ints]:
        """The rows of all requests that clients sent to the nodes, in the order in which they were sent, and when."""
        rows = np.flatnonzero(self._is_ours & (self._sent < _NEVER_NS))
        rows = rows[np.argsort(self._sent[rows], kind="stable")]
        return rows, self._sent[rows]

    def in_rows(self, rows: Ints) -> list[WireRequest]:
        """The requests in these rows, in this order."""
        found = self._rows.take(pa.array(rows, pa.int64())).to_pylist()
        return [self._request(int(row), told) for row, told in zip(rows, found, strict=True)]

    def of_client(self, client: str, from_ns: int, to_ns: int) -> list[WireRequest]:
        """The requests that the client sent after the first time, and whose replies it had by the second, in the order
        in which they were sent. Of a task: its own, and those of which it is not known whose they are."""
        rows = np.flatnonzero(self._is_ours & (self._sent >= from_ns) & (self._came <= to_ns))
        own = [one for one in self.in_rows(rows) if one.may_be_of(client)]
        return sorted(own, key=lambda one: one.sent_ns)

    def on_connection(self, connection: int, from_ns: int, to_ns: int) -> list[WireRequest]:
        """What was sent over it in this time, in this order, whichever task sent it."""
        rows = np.flatnonzero((self._connection == connection) & (self._sent >= from_ns) & (self._sent <= to_ns))
        return sorted(self.in_rows(rows), key=lambda one: one.sent_ns)

    def were_sent(self, client: str, nodes: Collection[str], from_ns: int, to_ns: int) -> bool:
        """Whether the client, or this task of it, may have sent one of the nodes any request in this time."""
        rows = np.flatnonzero(self._is_ours & (self._sent >= from_ns) & (self._sent <= to_ns))
        return any(one.may_be_of(client) and one.node in nodes for one in self.in_rows(rows))

    def at(self, row: int) -> WireRequest | None:
        """The request of a client in this row; None for the row -1, or one of the harness's."""
        if row < 0 or not self._is_ours[row]:
            return None
        return self._request(row, self._rows.slice(row, 1).to_pylist()[0])

    def taken_for(self, last: WireRequest, by_ns: int) -> int | None:
        """The earlier request whose reply a client takes for that to `last` if it reads the replies of a connection in
        their order, gives up on the late ones, and forgets that they are still to come. None if there is none."""
        rows = np.flatnonzero((self._connection == last.connection) & (self._sent <= last.sent_ns))
        rows = rows[np.argsort(self._sent[rows], kind="stable")]
        sent, came = self._sent[rows], self._came[rows]
        taken = 0
        for following_ns, since_ns in zip(sent[1:].tolist(), sent[:-1].tolist(), strict=True):
            taken += came[taken] <= following_ns or following_ns - since_ns < _PIPELINED_NS
        row = int(rows[taken])
        return row if row != last.row and came[taken] <= by_ns else None

    def _request(self, row: int, told: Mapping[str, Any]) -> WireRequest:
        """One object a row."""
        if row not in self._made:
            self._made[row] = self._new(row, told)
        return self._made[row]

    def _new(self, row: int, told: Mapping[str, Any]) -> WireRequest:
        words = (told["command"], *(str(word) for word in told["arguments"] or ()))
        script = ""
        if told["command"] in EVAL and len(words) > 1:
            script = self._scripts.get(words[1].lower(), words[1])
        as_told = {name: told[name] for name in _COLUMNS if name not in ("keys", "arguments")}
        return WireRequest(row=row, keys=tuple(told["keys"] or ()), words=words, script=script, **as_told)


def _block(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """The transaction that a request belongs to; None outside of one."""
    return None if row["transaction"] is None else (row["connection"], row["transaction"])


def _is_one_of(column: pa.ChunkedArray, names: Collection[str]) -> Bools:
    """Whether each row has one of these names; the column's numbers stand for names."""
    parts = [
        np.array([name in names for name in chunk.dictionary.to_pylist()], np.bool_)[chunk.indices.to_numpy()]
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
