"""Attributes each request to the call of its client during which, or after which, it was sent.

A client calls its lock: it acquires, extends, releases. What the lock sends meanwhile belongs to that call; what it
sends at another time is background work, after the call that ended last. A process with several tasks has several calls
under way at once, so it notes which task sends what (`workloads.senders`). Of a request that is of no task, because a
thread of the lock sent it, the only call for its key counts, and if there are more of them, or none, no call. Where the
process does note its tasks, it does not count either while another task is inside with that key: the thread may work
for that one. Of keys whose names begin alike, as `k1` and `k1:2`, a request is for the longest one that is in its own
key's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from fencepost.history import LOCK_STEPS, process_of
from harness.history.groups import Ints, columns_of, rows_of, where

if TYPE_CHECKING:
    from harness.history.run_tables import RunTables

NO_CALL: Final = -1
GRANTS: Final = ("acquire", "reenter")
"""The calls that are granted a lease."""
_STEPS: Final = {"acquiring": "acquire", "extending": "extend", "releasing": "release"}
"""What a client says it is doing while the lock works for it, and what was asked of the lock."""
_TEXTS: Final = ("client", "f", "outcome", "key")
_NUMBERS: Final = ("life", "section", "invoke_ns", "complete_ns")


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of all clients, as columns. A call that was under way when its client was killed has no outcome and the
    section -1. `of_process`: by process, the places of the calls of each of its tasks, in order. `has_permits`: the
    lock may number what it keeps of a key, so that it looks like that of another key."""

    client: Any
    life: Ints
    f: Any
    outcome: Any
    section: Ints
    key: Any
    invoke_ns: Ints
    complete_ns: Ints
    of_process: dict[str, list[Ints]]
    has_permits: bool = False

    @classmethod
    def of(cls, run: RunTables) -> Calls:
        ops = where(run.ops, f=LOCK_STEPS)
        cut = pd.DataFrame(_cut_off(run), columns=[*_TEXTS, *_NUMBERS])
        columns = dict.fromkeys(_TEXTS, "str") | dict.fromkeys(_NUMBERS, "int64")
        every = pd.concat([some[list(columns)].astype(columns) for some in (ops, cut)])
        client, f, outcome, key = (every[name].to_numpy(object) for name in _TEXTS)
        life, section, invoke, complete = columns_of(every, *_NUMBERS)
        of_process: dict[str, list[Ints]] = {}
        for task in dict.fromkeys(client.tolist()):
            own = np.flatnonzero(client == task)
            of_process.setdefault(process_of(task), []).append(own[np.argsort(invoke[own], kind="stable")])
        return cls(client, life, f, outcome, section, key, invoke, complete, of_process, run.config.permits > 1)

    def at(self, process: str, sent_ns: Ints, key: Any, sender: Any, *, are_noted: bool = False) -> tuple[Ints, Any]:
        """For requests of one process: the call in which each was sent, or else (if its task is known) the last one
        that had ended, or `NO_CALL`; and whether it was sent in that call. `key`: the key of each, as the node calls
        it. `sender`: the task of each; None if it is not on record. `are_noted`: processes noted their tasks."""
        tasks = [(self.client[own[0]], *self._begun(own, sent_ns)) for own in self.of_process.get(process, [])]
        if len(tasks) == 1:
            return tasks[0][1:]
        meant, is_known = self.meant_by(key), np.array([of is not None for of in sender], bool)
        found, inside, number = np.full(len(sent_ns), NO_CALL), np.zeros(len(sent_ns), bool), np.zeros(len(sent_ns))
        for task, call, is_inside in tasks:
            # Of a call that was cut off it is not known for which key it was.
            fits = (not meant[name] or of in ("", *meant[name]) for of, name in zip(self.key[call], key, strict=True))
            is_for_key = np.fromiter(fits, bool, len(key))
            is_its = np.where(is_known, sender == task, is_inside & is_for_key)
            found, number = np.where(is_its, call, found), number + is_its
            number += are_noted & ~is_known & ~is_inside & is_for_key & self._holds(call)
            inside |= is_inside & (is_its | ~is_known)
        return np.where(number == 1, found, NO_CALL), inside

    def granted(self, call: int) -> int:
        """The acquire that was granted for the section of this call; `NO_CALL` if it is not on record."""
        is_its = (self.client == self.client[call]) & (self.life == self.life[call])
        is_its &= (self.section == self.section[call]) & (self.f == "acquire") & (self.outcome == "ok")
        found = np.flatnonzero(is_its)
        return int(found[0]) if call != NO_CALL and len(found) else NO_CALL

    def was_refused(self, call: int) -> bool:
        """Whether it ended without the lock."""
        return call != NO_CALL and self.outcome[call] in ("fail", "info")

    def meant_by(self, names: Iterable[str]) -> dict[str, list[str]]:
        """By name of a key on the nodes, which of the lock's keys it may stand for."""
        keys = sorted(filter(None, dict.fromkeys(self.key.tolist())), key=len, reverse=True)
        found = {name: [of for of in keys if of in str(name)] for name in dict.fromkeys(names)}
        return {name: own if self.has_permits else own[:1] for name, own in found.items()}

    def under_way(self, process: str, at_ns: int, key: str | None = None) -> list[int]:
        """The calls of a process for this key, or for any, at this time, one a task at most."""
        begun = [self._begun(own, np.array([at_ns])) for own in self.of_process.get(process, [])]
        inside = [int(call[0]) for call, is_inside in begun if is_inside[0]]
        return [call for call in inside if key is None or self.key[call] in ("", key)]

    def _holds(self, call: Ints) -> Any:
        """Whether a client that has made this call last is inside."""
        f = self.f[call]
        return (call != NO_CALL) & (f != "release") & ((f != "acquire") | (self.outcome[call] == "ok"))

    def _begun(self, own: Ints, sent_ns: Ints) -> tuple[Ints, Any]:
        """The last call that one task had begun by these times, and whether it was still under way."""
        place = np.searchsorted(self.invoke_ns[own], sent_ns, "right") - 1
        call = own[np.maximum(place, 0)]
        return np.where(place >= 0, call, NO_CALL), (place >= 0) & (sent_ns <= self.complete_ns[call])


def _cut_off(run: RunTables) -> Iterator[tuple[Any, ...]]:
    """The calls that were under way when their clients were killed, since the last operation of that life had ended."""
    cut = [end for end in run.ends if end.under_way in _STEPS]
    ended = rows_of(run.ops, "client", "life", "complete_ns") if cut else ()
    began = {(str(client), life): at_ns for client, life, at_ns in ended}
    for end in cut:
        texts = end.client, _STEPS[end.under_way or ""], "", ""
        yield *texts, end.life, -1, began.get((end.client, end.life), 0), end.at_ns
