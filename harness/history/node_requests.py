"""What a client sent to one node, the connections that it made to it, and the values that it drew."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.commands import SET_ANYWAY
from harness.history.error_replies import error_of, may_be_the_scripts

if TYPE_CHECKING:
    from harness.history.change_causes import WireRecord
    from harness.history.groups import Ints


_LEAST_LETTERS: Final = 8
_NAME: Final = re.compile(r"[^\s\"',:;|{}\[\]()]{8,}")


def names_in(requests: pa.Table, places: Ints) -> list[set[str]]:
    """By place in `requests`, the words that can name a member; none where the place is -1."""
    taken = requests["arguments"].take(pa.array(places, mask=places < 0)).to_pylist()
    return [{str(word) for word in words or () if _is_name(str(word))} for words in taken]


def _sets_anyway(change: Mapping[str, Any]) -> bool:
    """Whether the value that its request names is the one that it sets, whatever the key holds."""
    return bool(change["did"] == change["command"] and change["command"] in SET_ANYWAY)


def names_of(text: str) -> set[str]:
    """The parts of it that can name who holds the lock."""
    return {part for part in _NAME.findall(text) if _is_name(part)}


def _is_name(word: str) -> bool:
    return len(word) >= _LEAST_LETTERS and not word.lstrip("-").replace(".", "").isdigit()


class Request(NamedTuple):
    """`from_client_ns`, `from_node_ns`: when it, and the node's answer, came to the proxy; `to_client_ns`: when the
    proxy passed the answer on. `task`: of several in its process; None if that is not on record. `reply`: None if the
    node did not answer."""

    from_client_ns: int
    from_node_ns: int | None
    to_client_ns: int | None
    connection: int
    task: str | None
    command: str
    keys: Sequence[str]
    arguments: Sequence[str]
    reply: str | None

    @property
    def words(self) -> tuple[str, ...]:
        return (self.command, *self.arguments)

    def answer_by(self, at_ns: int) -> str | None:
        """The answer that the client had by this time."""
        return None if self.to_client_ns is None or self.to_client_ns > at_ns else self.reply

    @property
    def but_keys(self) -> tuple[str, ...]:
        """The same words without the keys: alike for requests that differ in these alone."""
        return (self.command, *(word for word in self.arguments if word not in self.keys))


@dataclass(frozen=True, slots=True)
class NodeRequests:
    """The requests of a run. A client is a process here, or one of its tasks."""

    wire: WireRecord
    _known: dict[tuple[str, str], tuple[Ints, Ints]] = field(default_factory=dict)
    """By client and node, the places of the requests that reached the proxy, and when."""
    _scripts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._scripts.update(self.wire.scripts())

    def between(self, client: str, node: str, from_ns: int, to_ns: int) -> list[Request]:
        """The requests that the client sent to the node in this time, in order. Of a task: its own, and those of which
        it is not known whose they are."""
        rows, process = self.wire.requests, process_of(client)
        if (client, node) not in self._known:
            names = zip(("client", "node", "by"), (process, node, "client"), strict=True)
            own = np.logical_and.reduce([pc.equal(rows[name], of).to_numpy(zero_copy_only=False) for name, of in names])
            if client != process:
                may_be = pc.or_kleene(pc.is_null(rows["task"]), pc.equal(rows["task"], client))
                own &= may_be.to_numpy(zero_copy_only=False).astype(bool)
            places = np.flatnonzero(own & rows["from_client_ns"].is_valid().to_numpy(zero_copy_only=False))
            self._known[client, node] = places, rows["from_client_ns"].take(pa.array(places)).to_numpy()
        places, sent_ns = self._known[client, node]
        some = places[(sent_ns >= from_ns) & (sent_ns <= to_ns)]
        return [Request(**row) for row in rows.select(Request._fields).take(pa.array(some)).to_pylist()]

    def error_of(self, request: Request) -> str | None:
        """The error with which the node answered, by its words; None if it gave another answer or none, or if the
        error may be what a script of the lock said itself: then the node has carried the request out."""
        error = error_of(request.reply)
        script = self.script_of(request)
        return None if error is None or may_be_the_scripts(request.command, script, error) else error

    def script_of(self, request: Request) -> str | None:
        """The text of the script that it calls; None if it calls none, or one whose text is not on record."""
        return self._scripts.get(request.arguments[0].lower()) if request.arguments else None

    def words(self, node: str, from_ns: int, to_ns: int, but: Collection[str]) -> set[str]:
        """What all clients' requests to the node in this time named, other than these commands."""
        rows = self.wire.requests
        sent = rows["from_client_ns"]
        within = pc.and_(
            pc.and_(pc.greater_equal(sent, from_ns), pc.less_equal(sent, to_ns)), pc.equal(rows["node"], node)
        )
        some = rows.select(["command", "arguments"]).filter(within).to_pylist()
        return {word for row in some if row["command"] not in but for word in row["arguments"]}

    def of_others(self, client: str, node: str, key: str, since_ns: int) -> list[Request]:
        """The requests that other clients sent to the node later on, and that named the key."""
        rows = self.wire.requests
        is_one = pc.and_(pc.equal(rows["by"], "client"), pc.greater(rows["from_client_ns"], since_ns))
        is_one = pc.and_(is_one, pc.and_(pc.equal(rows["node"], node), pc.not_equal(rows["client"], client)))
        asked = (Request(**row) for row in rows.select(Request._fields).filter(is_one).to_pylist())
        return [one for one in asked if key in one.keys]

    def connections(self, client: str, node: str, from_ns: int, to_ns: int) -> set[int]:
        """The connections that the client made to the node after the one time, until the other."""
        table = self.wire.connections
        columns = (table[name].to_pylist() for name in ("client", "node", "connection", "opened_ns"))
        return {
            number
            for who, to, number, opened_ns in zip(*columns, strict=True)
            if (who, to) == (client, node) and from_ns < opened_ns <= to_ns
        }

    def compared(self, change: Mapping[str, Any]) -> bool:
        """Whether the request that made this change of the ledger named the value that the key had, or the node had
        answered its client with that value since the call began: else the value did not matter to it. A
        request that is not on record may have."""
        value, client = change["was"], change["client"]
        if not value or client is None or change["request"] < 0:
            return True
        if _sets_anyway(change):
            return False
        if value in self.wire.requests["arguments"][change["request"]].as_py():
            return True
        since_ns, sent_ns = int(change["invoke_ns"]), int(change["from_client_ns"])
        before = self.between(process_of(str(client)), str(change["node"]), since_ns, sent_ns)
        return any(one.reply is not None and value in one.reply for one in before if one.from_client_ns < sent_ns)

    def names_value(self, change: Mapping[str, Any]) -> bool:
        """Whether the request that made this change of the ledger named the value that the key had before."""
        if not change["was"] or change["request"] < 0 or _sets_anyway(change):
            return False
        return change["was"] in self.wire.requests["arguments"][change["request"]].as_py()
