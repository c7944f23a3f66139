"""Which node of a server's tree a client that waits had left a watch on, and why that node was still there.

Locks on such a server are queues (https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks): a client
makes a node, and watches the one before its own until that is gone. What a client watches that waits itself is there
because of what that client watches, so the reason is at the end of a chain. Or a client watches the folder of the
nodes, as in a semaphore, until few enough are left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import msgspec
import numpy as np
import pyarrow.compute as pc

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.causes import Cause, Reason
from harness.explain.words import at
from harness.history.calls import NO_CALL, Calls
from harness.history.error_replies import ERROR_REPLY
from harness.history.fault_windows import FOREVER_NS
from harness.history.recorded import Recorded

_MESSAGE: Final = '{"event"'
_CREATE, _DELETE, _EPHEMERAL, _WATCH = "CREATE", "DELETE", "EPHEMERAL", "WATCH"
_OF_FOLDER: Final = ("GETCHILDREN", "GETCHILDREN2")
_COLUMNS: Final = ("client", "task", "command", "arguments", "from_client_ns", "from_node_ns", "to_client_ns", "reply")
_LONGEST: Final = 40


class _Node(NamedTuple):
    """Who made a node, and when. `call`: of its client, in which it was made, or after which."""

    owner: str
    made_ns: int
    call: int
    is_in_call: bool


class _Watch(NamedTuple):
    """What a client had watched, since when, and the names that the server had answered with, if it is a folder. `key`:
    what the client waited for."""

    path: str
    since_ns: int
    names: str | None
    key: str


class Kept(NamedTuple):
    """Why a client was not let in, and since when that was so."""

    reason: Reason
    since_ns: int


@dataclass(frozen=True, slots=True)
class WatchedNodes:
    """`heard`: by client, the watches that it left and the messages that it got, as requests, in the order in which
    these came. `nodes`: by path, the ones that end with their clients' sessions. `seen_ns`: by path, when a server last
    had it among the nodes of its folder. `asked_ns`: by path, when a client
    first asked to delete it; `gone_ns`: when that was done. `session_ns`: how long a session lasts without its
    client."""

    run: Recorded
    calls: Calls
    heard: Mapping[str, Sequence[Mapping[str, Any]]]
    nodes: Mapping[str, _Node]
    seen_ns: Mapping[str, int]
    asked_ns: Mapping[str, int]
    gone_ns: Mapping[str, int]
    session_ns: int

    @classmethod
    def of(cls, run: Recorded) -> Self | None:
        """None where the record has no watches."""
        wire = run.wire()
        if wire is None or not pc.any(is_message := pc.starts_with(wire.requests["reply"], _MESSAGE)).as_py():
            return None
        has_words = pc.greater(pc.list_value_length(wire.requests["arguments"]), 0)
        is_clients = pc.equal(wire.requests["by"], "client")
        told = wire.requests.filter(pc.and_(is_clients, pc.or_kleene(is_message, has_words)))
        rows = told.select(_COLUMNS).to_pylist()
        calls, heard = Calls.of(run), defaultdict[str, list[Mapping[str, Any]]](list)
        nodes, seen_ns = dict[str, _Node](), dict[str, int]()
        asked_ns, gone_ns = dict[str, int](), dict[str, int]()
        for row in rows:
            command, words, reply = row["command"], row["arguments"], row["reply"]
            is_done = reply is not None and not reply.startswith(ERROR_REPLY)
            if command == _DELETE:
                asked_ns[words[0]] = min(row["from_client_ns"], asked_ns.get(words[0], FOREVER_NS))
                gone_ns |= {words[0]: row["from_node_ns"]} if is_done else {}
            elif command.startswith(_CREATE) and is_done and _EPHEMERAL in words:
                path = msgspec.json.decode(reply)
                nodes[path] = _made(calls, row, path)
            elif is_done and row["to_client_ns"] is not None and (not words or _WATCH in words):
                heard[row["client"]].append(row)
            if command in _OF_FOLDER and is_done:
                for name in msgspec.json.decode(reply):
                    path = f"{words[0]}/{name}"
                    seen_ns[path] = max(row["from_node_ns"], seen_ns.get(path, 0))
        in_order = {who: sorted(own, key=_came) for who, own in heard.items()}
        return cls(run, calls, in_order, nodes, seen_ns, asked_ns, gone_ns, round(run.kept_ms * 1e6))

    def why_waiting(self, client: str, at_ns: int) -> Kept | None:
        """`c3 watched /locks/k1/…-04, which c1 had made at +1.0 ms; …`: why the client, which acquires, was not let in
        by then. None if it is not known, or if it waited for a client that was inside."""
        parts, waiting, since_ns = list[str](), [client], 0
        while (watch := self._watched(waiting[-1], at_ns)) is not None:
            path, watched_ns = watch.path, watch.since_ns
            since_ns = max(since_ns, watched_ns)
            if watch.names is not None and (kept := self._in_folder(watch, at_ns)) is not None:
                parts.append(f"{waiting[-1]} watched {_short(path)}")
                return Kept(Reason("; ".join([*parts, kept.reason.text]), kept.reason.cause), kept.since_ns)
            if (node := self.nodes.get(path)) is None:
                break
            made = f"{node.owner} had made at {at(self.run, node.made_ns)}"
            parts.append(f"{waiting[-1]} watched {_short(path)}, which {made}")
            if (kept := self._why_there(path, node, watched_ns, at_ns)) is not None:
                return Kept(Reason("; ".join([*parts, kept.reason.text]), kept.reason.cause), kept.since_ns)
            if node.owner in waiting:
                return Kept(
                    Reason("; ".join([*parts, "they waited for each other"]), "waited for each other"), since_ns
                )
            waiting.append(node.owner)
        return None

    def _in_folder(self, watch: _Watch, at_ns: int) -> Kept | None:
        """Why so many nodes were in the folder; None if those that no client had use of do not explain it."""
        left = list[tuple[int, Reason]]()
        for path, node in self.nodes.items():
            folder, _, name = path.rpartition("/")
            if folder == watch.path and name in (watch.names or "") and self.gone_ns.get(path, FOREVER_NS) >= at_ns:
                kept = self._why_there(path, node, watch.since_ns, at_ns)
                if kept is not None:
                    made = f"{node.owner} had made {_short(path)} there at {at(self.run, node.made_ns)}"
                    left.append((kept.since_ns, Reason(f"{made}; {kept.reason.text}", kept.reason.cause)))
        sections = self.run.sections
        inside = (sections["start_ns"] <= at_ns) & (sections["end_ns"] > at_ns) & (sections["key"] == watch.key)
        lost = self.run.permits - int(inside.sum())
        if not 0 < lost <= len(left):
            return None
        since_ns, reason = sorted(left)[lost - 1]
        return Kept(reason, max(since_ns, watch.since_ns))

    def _why_there(self, path: str, node: _Node, watched_ns: int, at_ns: int) -> Kept | None:
        """None if its client waits itself, or is inside, or has asked to delete it, or that is not known."""
        calls, call = self.calls, node.call
        if (gone_ns := self.gone_ns.get(path, FOREVER_NS)) < at_ns:
            told = "already" if gone_ns <= watched_ns else "and no message of that came"
            gone = f"it was deleted at {at(self.run, gone_ns)}, {told}"
            return Kept(Reason(gone, "not notified"), max(gone_ns, watched_ns))
        ends = [end.at_ns for end in self.run.ends if end.client == process_of(node.owner) and end.how != "cut-off"]
        if died := [end_ns for end_ns in ends if node.made_ns < end_ns < at_ns]:
            gone = f"{node.owner} was gone at {at(self.run, died[0])}"
            if self.seen_ns.get(path, 0) > died[0] + 2 * self.session_ns:
                return Kept(Reason(gone, "dead entry"), died[0])
            gone += ", and its node with its session, and no message of that came"
            return Kept(Reason(gone, "not notified"), died[0])
        if self.asked_ns.get(path, FOREVER_NS) < at_ns:
            return None
        if call != NO_CALL and calls.was_refused(call) and (ended_ns := int(calls.complete_ns[call])) < at_ns:
            begun = node.owner, int(calls.invoke_ns[call])
            is_cancelled = begun in {(one.client, one.since_ns) for one in self.run.cancelled}
            cause: Cause = "cancelled entry" if is_cancelled else "entry of a refused call"
            when = "that" if node.is_in_call else "before that, its"
            ended = f"{when} acquire had ended without the lock at {at(self.run, ended_ns)}"
            return Kept(Reason(f"{ended}, and no request had deleted it", cause), max(ended_ns, node.made_ns))
        if (released_ns := self._released_ns(call)) < at_ns:
            released = f"its release had ended at {at(self.run, released_ns)}"
            reason = Reason(f"{released}, and no request had deleted it", "unsent release")
            return Kept(reason, max(released_ns, node.made_ns))
        return None

    def _released_ns(self, call: int) -> int:
        """When the release of what this acquire was granted had ended."""
        calls = self.calls
        if call == NO_CALL or calls.outcome[call] != "ok":
            return FOREVER_NS
        own = (calls.client == calls.client[call]) & (calls.life == calls.life[call])
        own &= (calls.f == "release") & (calls.outcome == "ok")
        found = calls.complete_ns[own & (calls.section == calls.section[call])]
        return int(found.min(initial=FOREVER_NS))

    def _watched(self, client: str, at_ns: int) -> _Watch | None:
        """What the client had left a watch on in the acquire that was under way, and heard nothing of by then. Of one
        of several tasks it is not known what it heard."""
        own = self.calls.under_way(client, at_ns)
        if self.run.config.users_per_client > 1 or not own or self.calls.f[own[0]] != "acquire":
            return None
        heard, gone = self.heard.get(client, ()), set[str]()
        for row in reversed(heard[: bisect_right(heard, at_ns, key=_came)]):
            if _came(row) < self.calls.invoke_ns[own[0]]:
                break
            if row["arguments"]:
                path, names = row["arguments"][0], row["reply"] if row["command"] in _OF_FOLDER else None
                return None if path in gone else _Watch(path, _came(row), names, str(self.calls.key[own[0]]))
            gone.add(msgspec.json.decode(row["reply"])["path"])
        return None


def _made(calls: Calls, row: Mapping[str, Any], path: str) -> _Node:
    client, sent_ns = row["client"], row["from_client_ns"]
    call, is_in_call = calls.at(client, np.array([sent_ns]), [path], np.array([row["task"]], object))
    return _Node(row["task"] or client, sent_ns, int(call[0]), bool(is_in_call[0]))


def _came(row: Mapping[str, Any]) -> int:
    return int(row["to_client_ns"])


def _short(path: str) -> str:
    """What a lock draws comes first in a node's name, and the number that the server gave it comes last."""
    return printable(path if len(path) <= _LONGEST else f"{path[:12]}…{path[-16:]}")
