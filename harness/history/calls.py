"""In which call of its client was a request sent, or after which one?

A client calls its lock: it acquires, extends, releases. What the lock sends meanwhile belongs to that call; what it
sends at another time is background work. A process with several tasks has several calls under way at once: of these,
the one for the request's own key counts, and if it is not the only one, none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fencepost.history import LOCK_STEPS
from harness.history.groups import Ints

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

NO_CALL: Final = -1


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of all clients, as columns. A call that was under way when its client was killed has no outcome and the
    section -1. `of_process`: by process, the places of the calls of each of its tasks, in order."""

    client: Any
    life: Ints
    f: Any
    outcome: Any
    section: Ints
    key: Any
    invoke_ns: Ints
    complete_ns: Ints
    of_process: dict[str, list[Ints]]

    @classmethod
    def of(cls, run: Recorded) -> Calls:
        ops = run.ops[run.ops["f"].isin(LOCK_STEPS).to_numpy(bool)]
        cut = [end for end in run.ends if end.under_way in LOCK_STEPS]
        began = _last_recorded(run) if cut else {}
        columns = [
            np.append(ops[name].astype(str).to_numpy(object), np.array(more, object))
            for name, more in (
                ("client", [end.client for end in cut]),
                ("f", [end.under_way for end in cut]),
                ("outcome", [""] * len(cut)),
                ("key", [""] * len(cut)),
            )
        ]
        numbers = [
            np.append(ops[name].to_numpy(np.int64), np.array(more, np.int64))
            for name, more in (
                ("life", [end.life for end in cut]),
                ("section", [-1] * len(cut)),
                ("invoke_ns", [began.get((end.client, end.life), 0) for end in cut]),
                ("complete_ns", [end.at_ns for end in cut]),
            )
        ]
        client, f, outcome, key = columns
        life, section, invoke, complete = numbers
        of_process: dict[str, list[Ints]] = {}
        for task in dict.fromkeys(client.tolist()):
            own = np.flatnonzero(client == task)
            of_process.setdefault(task.partition("@")[0], []).append(own[np.argsort(invoke[own], kind="stable")])
        return cls(client, life, f, outcome, section, key, invoke, complete, of_process)

    def at(self, process: str, sent_ns: Ints, key: Any) -> tuple[Ints, Any]:
        """For requests of one process: the call in which each was sent, or else the last one that had ended, or
        `NO_CALL`; and whether it was sent in that call. `key`: the key of each, as the node calls it."""
        found, inside = np.full(len(sent_ns), NO_CALL), np.zeros(len(sent_ns), bool)
        tasks = self.of_process.get(process, [])
        latest = np.full(len(sent_ns), -1)
        under_way, fitting = np.zeros(len(sent_ns), np.int64), np.zeros(len(sent_ns), np.int64)
        for own in tasks:
            place = np.searchsorted(self.invoke_ns[own], sent_ns, "right") - 1
            call = own[np.maximum(place, 0)]
            begun = place >= 0
            is_inside = begun & (sent_ns <= self.complete_ns[call])
            if len(tasks) > 1:
                fits = is_inside & np.array(
                    [of in str(name) for of, name in zip(self.key[call], key, strict=True)], bool
                )
                fitting += fits
                is_first = is_inside & ((under_way == 0) | (fits & (fitting == 1)))
            else:
                is_first = is_inside
            under_way += is_inside
            ended = np.where(begun & ~is_inside, self.complete_ns[call], -1)
            is_later = ended > latest
            found = np.where(is_first, call, np.where(is_later & (under_way == 0), call, found))
            latest = np.where(is_later, ended, latest)
            inside |= is_inside
        several = (under_way > 1) & (fitting != 1)
        return np.where(several, NO_CALL, found), inside


def _last_recorded(run: Recorded) -> dict[tuple[str, int], int]:
    """When the last operation of each life of a client had ended."""
    columns = (run.ops[name].tolist() for name in ("client", "life", "complete_ns"))
    return {(str(client), life): at_ns for client, life, at_ns in zip(*columns, strict=True)}
