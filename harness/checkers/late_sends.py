"""Did a client's own waiters hold every connection that a release or an extension needed?

A request that blocks (BLPOP, say) keeps its connection until it is answered, and a subscription for good. If a lock
takes these from the same pool as everything else, a client that is inside cannot give the lock back, nor extend it,
until one of its own waiters has done: they wait for it, and it waits for them. A request was sent late if

- its call had begun `short_ns` before, and until then the client had sent nothing but requests that block (a waiter
  may go on first, within `_SOON_NS`);
- each of its connections to the nodes was taken all that time by such a request, or by a subscription, and the request
  went over one that a blocking request had held until then (`_SOON_NS`);
- no fault was in force on a node, on the client or its links, and the client ran.

`LEAST` such requests are found. This costs time, so it breaks only `liveness`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fencepost.history import process_of
from fencepost.text import listed, milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.commands import BLOCKING, LISTEN
from harness.history.fault_windows import FOREVER_NS, merged
from harness.history.groups import grouped, rows_of, where
from harness.history.ledger import Change, Ledger
from harness.history.link_activity import Activity
from harness.history.recorded import Recorded
from harness.history.standing_still import ran_ns
from harness.history.stretches import Stretch, in_order, longest, longest_ms
from harness.history.waits import Wait, in_the_way, short_ns
from harness.verdict import Answer, Finding

LEAST: Final = 3
_CALLS: Final = ("release", "extend")
_SOON_NS: Final = 50_000_000


class Figures(KeyFigures, frozen=True):
    """`requests`: of releases and extensions, that were sent late because all connections were taken. `longest_ms`:
    after the call had begun; None without any."""

    requests: int
    longest_ms: float | None

    def rows(self) -> Iterator[Row]:
        if self.requests:
            requests = plural(self.requests, "request")
            yield Row("late", f"{requests} sent up to {milliseconds(self.longest_ms)} after the call began", order=92)


@dataclass(frozen=True, slots=True)
class _HeldUp(Stretch):
    """From a call until its first request that changed a key. `taken`: how many connections were, all the time; `by`:
    the commands that held them."""

    f: str
    client: str
    key: str
    node: str
    command: str
    taken: int
    by: tuple[str, ...]


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record."""
    if (ledger := run.whole_ledger) is None:
        return Answer()
    late = in_order(_late(run, ledger))
    late = late if len(late) >= LEAST else []
    return Answer(Figures(len(late), longest_ms(late)), (_finding(run, late),) if late else ())


def _late(run: Recorded, ledger: Ledger) -> Iterator[_HeldUp]:
    for call, change in _calls(run, ledger).items():
        f, client, invoke_ns = call
        sent_ns = int(change["from_client_ns"])
        if sent_ns - invoke_ns < short_ns(run):
            continue
        taken = _taken(ledger.links.of(client), invoke_ns, sent_ns, int(change["connection"]))
        way = in_the_way(run, Wait(client, "", invoke_ns, sent_ns), [])
        if not taken or merged(way, invoke_ns, sent_ns) or ran_ns(run, client, invoke_ns, sent_ns) < short_ns(run):
            continue
        key, node, command = (str(change[name]) for name in ("key", "node", "command"))
        yield _HeldUp(invoke_ns, sent_ns, f, client, key, node, command, len(taken), tuple(sorted(set(taken))))


def _calls(run: Recorded, ledger: Ledger) -> dict[tuple[str, str, int], Change]:
    """By releasing or extending call, the first request in it that changed the key which the section had set. Which
    task of a process sent that is not always on record: whose key it was is."""
    rows, names = ledger.rows, ("client", "section", "f", "invoke_ns", "complete_ns")
    own = rows_of(where(run.ops, f=_CALLS), *names)
    calls = grouped(((client, section), call) for client, section, *call in own)
    found: dict[tuple[str, str, int], Change] = {}
    changes = where(rows, rows["request"] >= 0, rows["owner"] >= 0, what=("deleted", "prolonged"))
    for place in changes.sort_values("from_client_ns", kind="stable").index.tolist():
        change = ledger.change(place)
        setter = ledger.change(int(change["owner"]))
        task, section, sent_ns = setter["task"], setter["section"], change["from_client_ns"]
        if task is None or setter["client"] != change["client"]:
            continue
        for f, invoke_ns, done_ns in calls[str(task), int(section)]:
            if invoke_ns < sent_ns <= done_ns:
                found.setdefault((f, str(task), invoke_ns), change)
    return found


def _taken(client: Activity, since_ns: int, until_ns: int, over: int) -> list[str]:
    """What held each connection of the client in this time; empty if one of them was not taken, if the client sent
    anything that does not block, or if the one over which it went on was not taken until then."""
    rows = where(client.requests, client.requests["from_client_ns"] >= 0)
    meanwhile = where(rows, rows["from_client_ns"].between(since_ns, until_ns - _SOON_NS, inclusive="left"))
    if not meanwhile["command"].isin(BLOCKING).all():
        return []
    held: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    by: dict[int, str] = {}
    names = ("connection", "command", "from_client_ns", "to_client_ns")
    for connection, command, sent_ns, told_ns in rows_of(where(rows, rows["from_client_ns"] < until_ns), *names):
        held[connection] += []
        if command in BLOCKING:
            done_ns = FOREVER_NS if told_ns < 0 or command in LISTEN else told_ns
            held[connection].append((sent_ns, done_ns))
            if done_ns > since_ns:
                by[connection] = str(command)
        elif command.endswith("UNSUBSCRIBE"):
            held[connection] = [(began, min(done, sent_ns)) for began, done in held[connection]]
    open_ = {one: times for one, times in held.items() if client.closed_ns.get(one, FOREVER_NS) > since_ns}
    if over not in open_ or not any(abs(done - until_ns) <= _SOON_NS for _, done in open_[over]):
        return []
    for connection, times in open_.items():
        covered = merged(times, since_ns, until_ns)
        if sum(done - began for began, done in covered) < until_ns - since_ns - _SOON_NS or connection not in by:
            return []
    return [by[connection] for connection in open_]


def _finding(run: Recorded, late: Sequence[_HeldUp]) -> Finding:
    clients = plural(len({process_of(one.client) for one in late}), "client")
    text = (
        f"{plural(len(late), 'request')} of {listed(sorted({one.f for one in late}))} calls of {clients} went out up "
        f"to {milliseconds(longest_ms(late))} after the call had begun: until then the client's own waiters "
        "held all of its connections"
    )
    return SENT_LATE.of(late, text, partial(_example, run), longest(late))


def _example(run: Recorded, one: _HeldUp) -> dict[str, object]:
    return {
        "client": one.client,
        "call": one.f,
        "key": one.key,
        "node": one.node,
        "command": one.command,
        **run.lasted(one),
        "connections": one.taken,
        "taken_by": one.by,
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, number = case.text("client"), int(case.example["connections"])
    held = "its only connection was" if number == 1 else f"all {number} connections of its process were"
    return Told(
        f"{client} called {case.text('call')} at {case.at()}, and {case.text('command')} went out to "
        f"{case.text('node')} only {case.lasting()} later. {client} ran and no fault was in the way; until then {held} "
        f"taken by {case.listed('taken_by')}, sent for clients that waited.",
        cause="connections taken",
    )


SENT_LATE: Final = FindingKind(
    "sent-late",
    "liveness",
    _told,
    stands_for="connections taken",
    noun="request(s) sent late",
    surveyed="timeout",
)
