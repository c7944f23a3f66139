"""The requests that can have changed keys, as columns: when each node can have acted on them, and what they can do.

A node acted on a request between the time at which it was sent on to the node and the time at which the reply had come;
if there was no reply, until the node closed the connection or its server was started anew. What belongs to a
transaction was done with its EXEC, and only if that was done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cluster.effects import Effects
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Bools, Ints
from harness.history.key_changes import BITS

_WORDS_APART: Final = "\0"
_NO_VALUE: Final = -1


@dataclass(frozen=True, slots=True)
class WireRecord:
    """What went over the links: `requests` and `connections` as in `harness.store.wire`, `scripts` by SHA-1. `effects`:
    how requests change the nodes' keys. `recorded`: the nodes of whose requests none is missing."""

    requests: pa.Table
    connections: pa.Table
    scripts: Mapping[str, str]
    effects: Effects
    recorded: frozenset[str]


@dataclass(frozen=True, slots=True)
class KeyRequests:
    """`row`: the place in the table of requests. `node`: a code of the names given. `from_ns`, `to_ns`: the node acted
    on it in between. `can`, `rarely`: what it can have done, as bits. `value`: the code of the one value that it sets,
    or -1; `value_was`: of the one that its key must have held, or -1. `request`, `key`: pairs of a place in these
    columns and the code of a key that it names."""

    row: Ints
    node: Ints
    connection: Ints
    from_ns: Ints
    to_ns: Ints
    can: Ints
    rarely: Ints
    any_key: Bools
    is_single: Bools
    is_certain: Bools
    value: Ints
    value_was: Ints
    request: Ints
    key: Ints

    @classmethod
    def of(
        cls,
        wire: WireRecord,
        nodes: Sequence[str],
        keys: pd.Index,
        values: pd.Index,
        restarts: Mapping[str, Ints],
    ) -> KeyRequests:
        """`keys`, `values`: those that matter. `restarts`: by node, when each new run of its server was seen."""
        table = wire.requests
        command = texts_of(table["command"])
        words_of = {
            code: which
            for code, name in enumerate(command.names)
            if name and (which := wire.effects.words_of(str(name))) is not None
        }
        node = texts_of(table["node"])
        at_node = pd.Index(nodes).get_indexer(pd.Index(node.names))[node.codes]
        to_node, from_node = numbers_of(table["to_node_ns"], FOREVER_NS), numbers_of(table["from_node_ns"], FOREVER_NS)
        replies = table["reply"]
        can_write = np.isin(command.codes, list(words_of)) & (at_node >= 0)
        in_transaction = table["transaction"].is_valid().to_numpy(zero_copy_only=False)
        if (can_write & in_transaction).any():
            executed = _Executed(table, command, in_transaction)
            to_node, from_node, replies = executed.times(to_node, from_node, replies)
        can_write &= (to_node < FOREVER_NS) & (table["database"].to_numpy() == 0)
        row = np.flatnonzero(can_write)
        lists, arguments = (_whole(table[name]).take(pa.array(row)) for name in ("keys", "arguments"))
        whole = texts_of(replies)
        reply = Texts(whole.codes[row], whole.names)
        effect = _Effects.of(wire, command, words_of, command.codes[row], arguments, reply, values)
        connection = numbers_of(table["connection"], -1)[row]
        until = _until(wire.connections, connection, to_node[row], from_node[row])
        until = _before_restart(at_node[row], to_node[row], until, nodes, restarts)
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        named = texts_of(lists.flatten())
        code = keys.get_indexer(pd.Index(named.names))[named.codes] if len(named.codes) else np.zeros(0, np.int64)
        request = np.repeat(np.arange(len(row)), lengths)
        known = (code >= 0) & (effect.can[request] > 0)
        return cls(
            row,
            at_node[row],
            connection,
            to_node[row],
            until,
            effect.can,
            effect.rarely,
            effect.any_key,
            effect.is_single,
            effect.is_certain & (lengths == 1),
            effect.value,
            effect.value_was,
            request[known],
            code[known],
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """A column by numbers: -1 where it is missing."""

    codes: Ints
    names: Sequence[Any]


def texts_of(column: Any) -> Texts:
    whole = _whole(column)
    encoded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Texts(codes, encoded.dictionary.to_pylist())


def _whole(column: Any) -> Any:
    """The column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    return pa.array([], column.type) if isinstance(whole, pa.ChunkedArray) and not len(whole) else whole


def numbers_of(column: Any, missing: int) -> Ints:
    times: Ints = column.fill_null(missing).to_numpy()
    return times


@dataclass(frozen=True, slots=True)
class _Effects:
    can: Ints
    rarely: Ints
    any_key: Bools
    is_single: Bools
    is_certain: Bools
    value: Ints
    value_was: Ints

    @classmethod
    def of(
        cls,
        wire: WireRecord,
        command: Texts,
        words_of: Mapping[int, slice],
        commands: Ints,
        arguments: Any,
        reply: Texts,
        values: pd.Index,
    ) -> _Effects:
        """Each combination of a command, the words that matter, and a reply is looked at once."""
        size = len(commands)
        flags, bits, codes = np.zeros((3, size), bool), np.zeros((2, size), np.int64), np.full((2, size), _NO_VALUE)
        found = cls(bits[0], bits[1], flags[0], flags[1], flags[2], codes[0], codes[1])
        for code, which in words_of.items():
            at = np.flatnonzero(commands == code)
            if not len(at):
                continue
            own = pc.take(arguments, pa.array(at))
            words = texts_of(
                pc.binary_join(pc.list_slice(own, which.start, which.stop, return_fixed_size_list=False), _WORDS_APART)
            )
            both = words.codes * (len(reply.names) + 1) + reply.codes[at] + 1
            _, first, of_kind = np.unique(both, return_index=True, return_inverse=True)
            effects = [
                wire.effects.effect(
                    command.names[code],
                    str(words.names[words.codes[place]]).split(_WORDS_APART) if words.names[words.codes[place]] else [],
                    reply.names[reply.codes[at[place]]] if reply.codes[at[place]] >= 0 else None,
                    wire.scripts,
                )
                for place in first
            ]
            for bits, name in ((found.can, "changes"), (found.rarely, "rarely")):
                each = [sum(map(BITS.__getitem__, getattr(effect, name))) for effect in effects]
                bits[at] = np.array(each, np.int64)[of_kind]
            for name in ("any_key", "is_single", "is_certain"):
                getattr(found, name)[at] = np.array([getattr(each, name) for each in effects], bool)[of_kind]
            for name in ("value_at", "value_was"):
                places = [getattr(each, name) for each in effects]
                for place in {place for place in places if place is not None}:
                    column = found.value if name == "value_at" else found.value_was
                    some = np.isin(of_kind, [kind for kind, own in enumerate(places) if own == place])
                    some &= found.can[at] > 0
                    column[at[some]], values = _value_codes(pc.take(own, pa.array(np.flatnonzero(some))), place, values)
        return found


def _value_codes(arguments: Any, place: int, values: pd.Index) -> tuple[Ints, pd.Index]:
    """The codes of the words there, and the values with those that are new among them."""
    found = np.full(len(arguments), _NO_VALUE)
    long = np.flatnonzero(pc.list_value_length(arguments).to_numpy(zero_copy_only=False) > place)
    told = texts_of(pc.list_element(pc.take(arguments, pa.array(long)), place))
    names = pd.Index(told.names, dtype=object)
    values = values.append(names[values.get_indexer(names) < 0])
    found[long] = values.get_indexer(names)[told.codes]
    return found, values


class _Executed:
    """What the requests of transactions become: they are done with the EXEC, and answered in its reply."""

    def __init__(self, table: pa.Table, command: Texts, in_transaction: Bools) -> None:
        self._rows = np.flatnonzero(in_transaction)
        names = command.names
        exec_code = names.index("EXEC") if "EXEC" in names else -2
        other = [names.index(name) for name in ("MULTI", "DISCARD", "WATCH") if name in names]
        self._is_exec = command.codes[self._rows] == exec_code
        self._is_member = ~self._is_exec & ~np.isin(command.codes[self._rows], other)
        numbers = table.select(["connection", "transaction"]).take(self._rows)
        self._of = list(zip(numbers["connection"].to_pylist(), numbers["transaction"].to_pylist(), strict=True))

    def times(self, to_node: Ints, from_node: Ints, replies: Any) -> tuple[Ints, Ints, Any]:
        to_node, from_node = to_node.copy(), from_node.copy()
        told = replies.take(pa.array(self._rows)).to_pylist()
        executed = {self._of[at]: at for at in np.flatnonzero(self._is_exec)}
        members: dict[tuple[int, int], int] = {}
        changed: dict[int, str | None] = {}
        for at in np.flatnonzero(self._is_member):
            row, of = self._rows[at], self._of[at]
            number = members[of] = members.get(of, -1) + 1
            by = executed.get(of)
            answer = None if by is None else told[by]
            is_done = by is not None and (answer is None or answer.startswith("["))
            if by is None or not is_done:
                to_node[row] = FOREVER_NS  # never executed
                continue
            exec_row = self._rows[by]
            to_node[row], from_node[row] = to_node[exec_row], from_node[exec_row]
            changed[int(row)] = _element(answer, number)
        whole = replies.to_pylist() if changed else []
        for row, reply in changed.items():
            whole[row] = reply
        return to_node, from_node, pa.chunked_array([pa.array(whole, pa.string())]) if changed else replies


def _element(answer: str | None, number: int) -> str | None:
    """One of the replies that EXEC answered with; None if it is not known."""
    if answer is None:
        return None
    try:
        replies = msgspec.json.decode(answer, type=list[msgspec.Raw])
    except msgspec.DecodeError:  # cut off
        return None
    return bytes(replies[number]).decode() if number < len(replies) else None


def _until(connections: pa.Table, connection: Ints, to_node: Ints, from_node: Ints) -> Ints:
    """By when the node had acted: it does not act any more on what came over a connection that it has closed."""
    closed = dict(zip(connections["connection"].to_pylist(), connections["node_closed_ns"].to_pylist(), strict=True))
    until = from_node.copy()
    for at in np.flatnonzero(from_node >= FOREVER_NS):
        until[at] = max(int(to_node[at]), closed.get(int(connection[at])) or FOREVER_NS)
    return until


def _before_restart(
    node: Ints, to_node: Ints, until: Ints, nodes: Collection[str], restarts: Mapping[str, Ints]
) -> Ints:
    """A server that was started anew knows nothing of what had been sent to it before."""
    until = until.copy()
    for number, name in enumerate(nodes):
        times = np.append(restarts.get(name, np.zeros(0, np.int64)), FOREVER_NS)
        own = np.flatnonzero((node == number) & (until >= FOREVER_NS))
        until[own] = times[np.searchsorted(times, to_node[own], "left")]
    return until
