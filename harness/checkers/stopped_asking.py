"""Did one of several tasks in a process stop asking for a lock that other clients kept acquiring?

A client that waits must ask again at the latest when the last lease that it saw has expired. Where many compete, the
lock is free for moments only, and the other tasks of the process ask all the time, so neither the key nor the links of
the process show that a task sleeps on. It has stopped asking if all of this was so within one acquire:

- it had asked, and was answered; then it sent nothing that can tell it of the lock, for `SLACK_NS` longer than a client
  may sleep beside a free lock (`harness.history.waits.patience_ns`), in which it ran. To subscribe to a channel,
  or to leave it, is not to ask. What a thread of the lock sent, which is of no task, may be for this one;
- whatever its process had sent in this acquire until then was answered, and none of the connections that it may have
  used was closed meanwhile;
- when it should have asked, no fault was in force on the nodes of the lock, on the client or its links, for `CLEAR_MS`
  on end;
- `OVERTAKEN` acquires of others that had begun after its last answer were granted meanwhile, `OF_ITS_PROCESS` of them
  of its own process.

No correct lock does this by bad luck. It costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fencepost.history import process_of
from fencepost.text import milliseconds, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.commands import BLOCKING, CONNECT, LEAVE, LISTEN
from harness.history.fault_windows import between
from harness.history.groups import rows_of, where
from harness.history.ledger import Ledger
from harness.history.recorded import Recorded
from harness.history.sessions import closed_connections
from harness.history.standing_still import ran_ns
from harness.history.stretches import Stretch, in_order, longest, longest_ms
from harness.history.waits import SLACK_NS, Wait, in_the_way, patience_ns
from harness.verdict import Answer, Finding

OVERTAKEN: Final = 10
OF_ITS_PROCESS: Final = 5
CLEAR_MS: Final = 500
_OTHER: Final = (*LISTEN, *LEAVE, *CONNECT, "PUBLISH")
"""Requests that tell a client nothing of the lock."""


class Figures(KeyFigures, frozen=True):
    """`waits`: in which a task stopped asking. `longest_ms`: for how long it did not ask; None without any."""

    waits: int
    longest_ms: float | None

    def rows(self) -> Iterator[Row]:
        if self.waits:
            waits = plural(self.waits, "acquire")
            text = f"{waits} stopped asking, for up to {milliseconds(self.longest_ms)}"
            yield Row("asleep", text, order=61)


@dataclass(frozen=True, slots=True)
class _Unasked(Stretch):
    """From when its last request was answered until it asked again, or its acquire ended. `overtaken`, `own`: how many
    acquires that began later were granted, and how many of its own process."""

    wait: Wait
    overtaken: int
    own: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record."""
    ledger = run.whole_ledger
    if ledger is None or not run.is_exclusive or run.had_no_access:
        return Answer()
    stopped = in_order(_stopped(run, ledger))
    return Answer(Figures(len(stopped), longest_ms(stopped)), (_finding(run, ledger, stopped),) if stopped else ())


def _stopped(run: Recorded, ledger: Ledger) -> Iterator[_Unasked]:
    acquires = run.calls("acquire")
    least_ns = patience_ns(run) + SLACK_NS
    is_long = (acquires["complete_ns"] - acquires["invoke_ns"] >= least_ns).to_numpy(bool)
    if run.config.users_per_client == 1 or not is_long.any() or not ledger.wire.notes_tasks:
        return
    closed = closed_connections(ledger.wire.connections)
    granted = where(acquires, outcome="ok")
    process = granted["client"].map(process_of)
    for task, key, invoke_ns, done_ns in rows_of(acquires[is_long], "client", "key", "invoke_ns", "complete_ns"):
        wait, of = Wait(task, key, invoke_ns, done_ns), process_of(task)
        rows = ledger.links.of(of).requests
        mine = where(rows, rows["task"].isna() | (rows["task"] == task))
        for since_ns, until_ns in _unasked(run, wait, mine, least_ns):
            clear = between(in_the_way(run, wait, []), since_ns + patience_ns(run), until_ns)
            if not any(ran_ns(run, task, *stretch) >= CLEAR_MS * 1_000_000 for stretch in clear):
                continue
            later = (granted["key"] == key) & (granted["client"] != task)
            later &= (granted["invoke_ns"] > since_ns) & (granted["complete_ns"] < until_ns)
            overtaken, own = int(later.sum()), int((later & (process == of)).sum())
            if overtaken < OVERTAKEN or own < OF_ITS_PROCESS or _was_cut(wait, rows, mine, closed, since_ns):
                continue
            yield _Unasked(since_ns, until_ns, wait, overtaken, own)


def _unasked(run: Recorded, wait: Wait, mine: Any, least_ns: int) -> Iterator[tuple[int, int]]:
    """The times within an acquire in which its task asked for nothing for that long, although it ran, after a request
    that was answered."""
    asked = where(mine, ~mine["command"].isin(_OTHER))
    rows = _sent(asked, wait.since_ns, wait.until_ns).sort_values("from_client_ns")
    ends = [*rows["from_client_ns"].tolist()[1:], wait.until_ns][: len(rows)]
    for since_ns, command, until_ns in zip(rows["to_client_ns"], rows["command"], ends, strict=True):
        if (
            0 <= since_ns < until_ns
            and command not in BLOCKING
            and ran_ns(run, wait.client, since_ns, until_ns) >= least_ns
        ):
            yield int(since_ns), int(until_ns)


def _was_cut(wait: Wait, rows: Any, mine: Any, closed: dict[int, tuple[int, ...]], since_ns: int) -> bool:
    """Whether a request that its process had sent in this acquire until the task fell asleep was not answered soon, or
    a connection that the task may have used was closed in this time."""
    told = _sent(rows, wait.since_ns, since_ns + SLACK_NS)["to_client_ns"]
    listens = set(where(rows, rows["from_client_ns"] <= wait.until_ns, command=LISTEN)["connection"])
    used = set(_sent(mine, wait.since_ns, wait.until_ns)["connection"])
    closed_ns = (min(closed[one]) for one in used | listens if one in closed)
    is_told = ((told >= 0) & (told <= since_ns + 2 * SLACK_NS)).all()
    return not is_told or any(wait.since_ns <= at_ns <= wait.until_ns for at_ns in closed_ns)


def _sent(requests: Any, since_ns: int, until_ns: int) -> Any:
    return where(requests, requests["from_client_ns"].between(since_ns, until_ns))


def _finding(run: Recorded, ledger: Ledger, stopped: Sequence[_Unasked]) -> Finding:
    text = (
        f"{plural(len({one.wait.client for one in stopped}), 'client')} stopped asking for the lock for up to "
        f"{milliseconds(longest_ms(stopped))} while waiting for it, and up to "
        f"{max(one.overtaken for one in stopped)} acquires that other clients began later were granted meanwhile "
        f"(TTL {run.lease_ms:.0f} ms)"
    )
    return STOPPED.of(stopped, text, partial(_example, run, ledger), longest(stopped))


def _example(run: Recorded, ledger: Ledger, one: _Unasked) -> dict[str, object]:
    example: dict[str, object] = {
        "client": one.wait.client,
        "key": one.wait.key,
        **run.lasted(one),
        "waited_since_ms": run.at_ms(one.wait.since_ns),
        "overtaken": one.overtaken,
        "own": one.own,
    }
    rows = _sent(ledger.links.of(one.wait.client).requests, one.wait.since_ns, one.until_ns)
    heard = {name for names in where(rows, command=LISTEN)["arguments"] for name in names}
    left = where(rows, rows["from_client_ns"] >= one.since_ns, command=LEAVE).sort_values("from_client_ns")
    for at_ns, command, names in rows_of(left, "from_client_ns", "command", "arguments"):
        if some := sorted(heard.intersection(names)):
            return example | {"left": f"{command} {some[0]}", "left_ms": run.at_ms(at_ns)}
    return example


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, client, left = case.example, case.text("client"), ""
    if "left" in example:
        left = f"; {process_of(client)} sent {case.text('left')} at {case.at('left_ms')}, while {client} waited"
    return Told(
        f"{client} had been waiting for {case.text('key')} since {case.at('waited_since_ms')}. Its last request was "
        f"answered at {case.at()}, and it sent no other for {case.lasting()}. Meanwhile {example['overtaken']} "
        f"acquires that other clients had begun later were granted, {example['own']} of them in the same "
        f"process{left}.",
        cause="stopped asking",
    )


STOPPED: Final = FindingKind(
    "stopped-asking",
    "liveness",
    _told,
    stands_for="stopped asking",
    noun="wait(s) in which a client stopped asking",
    surveyed="free",
)
