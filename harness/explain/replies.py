"""What clients asked each node for, in which of their calls, and what the node answered: from the proxy's record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from harness.explain.wire_requests import WireRequest, WireRequests
from harness.explain.witnessed import What, what_was_done
from harness.history.calls import NO_CALL, Calls
from harness.history.change_causes import WireRecord
from harness.history.commands import SCRIPTED
from harness.history.error_replies import ERROR_REPLY
from harness.history.groups import grouped
from harness.history.recorded import Recorded

_PROVES: Final[Mapping[str, What]] = {"SET": "granted", "SETNX": "granted", "DEL": "deleted", "UNLINK": "deleted"}
"""What a yes to these proves, where the node was not watched."""
_VALUE_SECOND: Final = ("SET", "SETNX")
_YES, _NO = ('"OK"', "1"), ("null", "0")
_QUEUED: Final = '"QUEUED"'


class Span(NamedTuple):
    """A key and the time that matters for it."""

    key: str
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that names a key of the lock. `client`: the process that sent it, or its task; None if several tasks
    may have. `section`: that of the call in which it was sent, or of the last one before; None if there is none. `did`:
    what the node did to the key for it; `value`: that of the key then, or until then. `can_acquire`: whether such a
    request sets keys. `is_refused`: the node did nothing, and its answer is none that such a request gets when it sets
    the key."""

    request: WireRequest
    key: str
    client: str | None
    section: int | None
    did: What | None
    value: str | None
    can_acquire: bool
    is_refused: bool

    def was_heard(self, by_ns: int) -> bool:
        """Whether the client had the reply by then."""
        return self.request.to_client_ns is not None and self.request.to_client_ns <= by_ns


def asked_in(
    run: Recorded, record: WireRecord, requests: WireRequests, spans: Sequence[Span], names: Mapping[str, str]
) -> list[Asked]:
    """The requests within these spans, in the order in which they were sent. `names`: the lock's own name of each of
    its keys on the nodes; without any, the requests' own keys have to tell."""
    found: dict[int, tuple[WireRequest, str, str]] = {}
    for span in spans:
        on_nodes = {span.key, *(name for name, key in names.items() if key == span.key)}
        if not names:
            on_nodes |= _similar(record, span.key)
        for one in requests.on(on_nodes, span.from_ns, span.to_ns):
            if one.from_client_ns is not None and (name := next((k for k in one.keys if k in on_nodes), None)):
                found[one.row] = one, name, name if not run.is_exclusive else span.key
    some = [one for one, _, _ in found.values()]
    callers = dict(zip(found, _callers(run, some), strict=True))
    doings = _Doings(run, record)
    told = [doings.asked(one, name, key, *callers[row]) for row, (one, name, key) in found.items()]
    return sorted(told, key=lambda one: one.request.sent_ns)


class _Doings:
    """What requests did, by the ledger; where their node was not watched, by replies that leave no doubt."""

    def __init__(self, run: Recorded, record: WireRecord) -> None:
        rows = None if run.ledger is None else run.ledger.rows
        self._rows: dict[int, list[tuple[str, What | None, str | None]]] = {}
        granting: set[int] = set()
        if rows is not None:
            own = rows[rows["cause"] == "request"]
            columns = (own[name].tolist() for name in ("request", "key", "what", "did", "value", "was"))
            for request, key, what, command, value, was in zip(*columns, strict=True):
                did = what_was_done(what, command)
                self._rows.setdefault(request, []).append((key, did, was if did == "deleted" else value))
                if did == "granted" and request >= 0:
                    granting.add(request)
        self._is_known = bool(granting)
        columns = record.requests.select(["command", "arguments", "reply"])
        some = columns.take(pa.array(sorted(granting), pa.int64())).to_pylist()
        self._grants = {(_kind(row["command"], row["arguments"]), row["reply"]) for row in some}
        self._acquiring = {kind for kind, _ in self._grants} | {("SET", ""), ("SETNX", "")}
        self._watched, self._recorded = None if run.ledger is None else run.watched, record.recorded

    def asked(self, request: WireRequest, name: str, key: str, client: str | None, section: int | None) -> Asked:
        """`name`: the key's on the node."""
        reply = None if request.reply == _QUEUED else request.reply
        own = self._rows.get(request.row)
        meant = ((did, value) for on, did, value in own or () if on == name and did is not None)
        did, value = next(meant, (None, None))
        is_done = request.command in _PROVES and reply in _YES
        is_error = reply is not None and reply.startswith(ERROR_REPLY) and request.command not in SCRIPTED
        is_refused = own is None and reply is not None and not is_done
        kind = _kind(request.command, request.words[1:])
        is_refused &= is_error or reply in _NO or (self._saw(request) and (kind, reply) not in self._grants)
        if own is None and is_done and not self._saw(request):
            did = _PROVES[request.command]
            value = request.words[2] if request.command in _VALUE_SECOND else None
        can_acquire = not self._is_known or kind in self._acquiring
        return Asked(request, key, client, section, did, value, can_acquire, is_refused)

    def _saw(self, request: WireRequest) -> bool:
        """Whether the witness saw the node when it carried this out."""
        from_ns, to_ns = request.to_node_ns, request.from_node_ns
        if self._watched is None or from_ns is None or to_ns is None or request.node not in self._recorded:
            return False
        return self._watched.saw(request.node, from_ns, to_ns)


def _kind(command: str, arguments: Sequence[str]) -> tuple[str, str]:
    """The command, and its script if it has one."""
    return command, arguments[0] if command.startswith("EVAL") and arguments else ""


def _similar(record: WireRecord, key: str) -> set[str]:
    """The one name in the requests that has this key in it, or the numbered ones, if the key's own name is not used."""
    names = {str(name) for name in record.requests["keys"].combine_chunks().flatten().unique().to_pylist()}
    own = {name for name in names if name == key or re.fullmatch(rf"{re.escape(key)}#\d+", name)}
    like = {name for name in names if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", name)}
    return own or (like if len(like) == 1 else set())


def _callers(run: Recorded, requests: Sequence[WireRequest]) -> Iterator[tuple[str | None, int | None]]:
    """The client of each, or its task, and the section for which it called."""
    calls = Calls.of(run) if run.ledger is None else run.ledger.calls
    for one, (call, _) in zip(requests, calls_of(calls, requests), strict=True):
        if call == NO_CALL:
            yield one.client if run.config.users_per_client == 1 else None, None
        else:
            section = int(calls.section[call])
            yield str(calls.client[call]), section if section >= 0 else None


def calls_of(calls: Calls, requests: Sequence[WireRequest]) -> list[tuple[int, bool]]:
    """For each the call of its client in which it was sent, or which had ended last, and whether it was sent in it."""
    found = [(NO_CALL, False)] * len(requests)
    for client, own in grouped((one.client, place) for place, one in enumerate(requests)).items():
        sent = np.array([requests[place].sent_ns for place in own], np.int64)
        keys = np.array([" ".join(requests[place].keys) for place in own], object)
        tasks = np.array([requests[place].task for place in own], object)
        for place, call, is_in_call in zip(own, *calls.at(client, sent, keys, tasks), strict=True):
            found[place] = int(call), bool(is_in_call)
    return found
