"""What clients asked each node for, in which of their calls, and what the node answered: from the proxy's record."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from cluster.effects import Change, Effect
from harness.explain.node_events import What
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.history.calls import NO_CALL, Calls
from harness.history.key_requests import WireRecord
from harness.history.recorded import Recorded

_DONE: Final[Mapping[Change, What]] = {"set": "granted", "prolonged": "prolonged", "deleted": "deleted"}
_ACQUIRES: Final[frozenset[Change]] = frozenset({"set", "changed"})
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
    what the reply proves that the node did; `value`: that of the key then, or until then. `can_acquire`: whether such a
    request can set the key. `is_refused`: the reply proves that the node did nothing."""

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
    found: dict[int, tuple[WireRequest, str]] = {}
    for span in spans:
        on_nodes = {span.key, *(name for name, key in names.items() if key == span.key)}
        if not names:
            on_nodes |= _similar(record, span.key)
        for one in requests.on(on_nodes, span.from_ns, span.to_ns):
            if one.from_client_ns is not None and (name := next((k for k in one.keys if k in on_nodes), None)):
                found[one.row] = one, name if run.permits > 1 else span.key
    some = [one for one, _ in found.values()]
    callers = dict(zip(found, _callers(run, some), strict=True))
    told = [_asked(record, *found[row], *callers[row]) for row in found]
    return sorted(told, key=lambda one: one.request.sent_ns)


def _asked(record: WireRecord, request: WireRequest, key: str, client: str | None, section: int | None) -> Asked:
    reply = None if request.reply == _QUEUED else request.reply
    effect = _effect(record, request, reply)
    (only,) = effect.changes if len(effect.changes) == 1 else (None,)
    did = _DONE.get(only) if only is not None and effect.is_certain and reply is not None else None
    at = effect.value_at if did == "granted" else effect.value_was
    value = request.words[1 + at] if did is not None and at is not None and 1 + at < len(request.words) else None
    can_acquire = bool(_effect(record, request, None).changes & _ACQUIRES)
    return Asked(request, key, client, section, did, value, can_acquire, reply is not None and not effect.changes)


def _effect(record: WireRecord, request: WireRequest, reply: str | None) -> Effect:
    which = record.effects.words_of(request.command)
    if which is None:
        return Effect()
    return record.effects.effect(request.command, request.words[1:][which], reply, record.scripts)


def _similar(record: WireRecord, key: str) -> set[str]:
    """The one name in the requests that has this key in it, or the numbered ones, if the key's own name is not used."""
    names = {str(name) for name in record.requests["keys"].combine_chunks().flatten().unique().to_pylist()}
    own = {name for name in names if name == key or re.fullmatch(rf"{re.escape(key)}#\d+", name)}
    like = {name for name in names if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", name)}
    return own or (like if len(like) == 1 else set())


def _callers(run: Recorded, requests: Sequence[WireRequest]) -> Iterator[tuple[str | None, int | None]]:
    """The client of each, or its task, and the section for which it called."""
    calls = Calls.of(run) if run.ledger is None else run.ledger.calls
    found: list[tuple[str | None, int | None]] = [(one.client, None) for one in requests]
    for client in {one.client for one in requests}:
        own = [place for place, one in enumerate(requests) if one.client == client]
        sent = np.array([requests[place].sent_ns for place in own], np.int64)
        keys = np.array([" ".join(requests[place].keys) for place in own], object)
        at, _ = calls.at(client, sent, keys)
        for place, call in zip(own, at.tolist(), strict=True):
            if call == NO_CALL:
                found[place] = client if run.config.tasks == 1 else None, None
            else:
                section = int(calls.section[call])
                found[place] = str(calls.client[call]), section if section >= 0 else None
    return iter(found)


def by_link(asked: Iterable[Asked]) -> dict[tuple[str, str], list[Asked]]:
    """By client and node."""
    found: dict[tuple[str, str], list[Asked]] = {}
    for one in asked:
        if one.client is not None:
            found.setdefault((one.client, one.request.node), []).append(one)
    return found


def rows_of(asked: Collection[Asked]) -> dict[int, Asked]:
    """By the place of the request in `requests.parquet`."""
    return {one.request.row: one for one in asked}
