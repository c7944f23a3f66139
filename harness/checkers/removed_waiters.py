"""Did a client wait for a turn that could not come, because its entry was gone from the queue?

A queue may lose the entry of a client that waits: others take out who seems to be gone, and a client that stood still
for a while is not. It must notice that, and come back. It waited for nothing if all of this was so, in one acquire that
was not granted:

- a request of another client had taken its entry out, or the entry was gone with its key, and the acquire added none
  again (`harness.history.lost_entries`);
- then it went on for as long as a gap without a grant takes (`harness.checkers.starvation.least_gap_ms`), the client
  ran, and the nodes answered `LEAST_ANSWERS` of its requests or more;
- none of these named a key of the lock itself, which every acquire must ask for that is granted, and `OVERTAKEN`
  acquires of other clients, or more, that had begun later were granted meanwhile;
- or each acquire of the run that was granted had added an entry of its own to the same key, as far as its node was
  watched; there are `GRANTS` or more of these. Then it is enough that `FEW` or more were granted, or that the lock was
  free for `SLACK_MS` or longer, no fault was in the way, and `LEAST_ANSWERS` of its requests were answered meanwhile.

If the entry was gone with its key, the nodes answered as many of its requests after that gap as before: a client that
could not ask cannot notice. `LEAST` such acquires are found. This costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

import pandas as pd

from fencepost.text import milliseconds, plural
from harness.checkers.starvation import least_gap_ms
from harness.checkers.vain_waits import LEAST_ANSWERS
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import client_of, how_sent
from harness.figures import KeyFigures, Row
from harness.history.commands import ADD, RENEW
from harness.history.groups import rows_of, where
from harness.history.ledger import Change, Ledger
from harness.history.lost_entries import LOST, lost_entries
from harness.history.recorded import Recorded
from harness.history.standing_still import ran_ns
from harness.history.stretches import Stretch, in_order, longest, longest_ms
from harness.history.waits import SLACK_NS, Wait, Waiting, names_of, waiting_clients
from harness.verdict import Answer, Finding

LEAST: Final = 2
OVERTAKEN: Final = 5
FEW: Final = 3
GRANTS: Final = 20


class Figures(KeyFigures, frozen=True):
    """`waits`: acquires that went on when their entry was gone. `longest_ms`: from then on; None
    without any."""

    waits: int
    longest_ms: float | None

    def rows(self) -> Iterator[Row]:
        if self.waits:
            waits = plural(self.waits, "acquire")
            text = f"{waits} waited without an entry in the queue, for up to {milliseconds(self.longest_ms)}"
            yield Row("overtaken", text, order=61)


@dataclass(frozen=True, slots=True)
class _Waited(Stretch):
    """From the change that took the entry out, or ended its key, until the acquire ended. `overtaken`: how many
    acquires that began later were granted first. `is_apart`: it never asked for the key itself. `free_ns`: for how long
    at once the lock was free, if that matters."""

    client: str
    key: str
    change: Change
    answers: int
    overtaken: int
    is_apart: bool
    free_ns: int = 0


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record."""
    ledger = run.whole_ledger
    if ledger is None or run.had_no_access:
        return Answer()
    waited = in_order(_waited(run, ledger))
    waited = waited if len(waited) >= LEAST else []
    return Answer(Figures(len(waited), longest_ms(waited)), (_finding(run, ledger, waited),) if waited else ())


def _waited(run: Recorded, ledger: Ledger) -> Iterator[_Waited]:
    columns = ("client", "invoke_ns", "key", "outcome", "complete_ns")
    ended = {(client, since_ns): call for client, since_ns, *call in rows_of(run.calls("acquire"), *columns)}
    granted = run.calls("acquire", "ok")
    gap_ns, rivals = round(least_gap_ms(run) * 1e6), cache(partial(waiting_clients, run, ledger))
    for client, entries in lost_entries(ledger).items():
        for call, change in {one.since_ns: one.change for one in reversed(entries)}.items():
            key, outcome, done_ns = ended.get((client, call), ["", "ok", 0])
            since_ns = int(change["at_ns"])
            if outcome == "ok" or ran_ns(run, client, since_ns, max(done_ns, since_ns)) < gap_ns:
                continue
            later = (granted["key"] == key) & (granted["client"] != client) & (granted["invoke_ns"] > since_ns)
            past = int((later & (granted["complete_ns"] < done_ns)).sum())
            answers = ledger.links.of(client).answered(since_ns, done_ns)
            later_on = ledger.links.of(client).answered(since_ns + gap_ns, done_ns)
            least = min(later_on, answers - later_on) if change["what"] in LOST else answers
            if least < LEAST_ANSWERS:
                continue
            names, sent = names_of(run, key), ledger.sent
            asked = (one for node in run.nodes for one in sent.between(client, node, since_ns, done_ns))
            is_apart = bool(names) and all(names.isdisjoint(one.keys) for one in asked)
            waited = _Waited(since_ns, done_ns, client, key, change, answers, past, is_apart)
            if is_apart and past >= OVERTAKEN:
                yield waited
            elif _is_only_way(run, ledger, change, where(granted, key=key)):
                if past >= FEW:
                    yield waited
                elif free_ns := _was_free_ns(run, ledger, waited, rivals()):
                    yield replace(waited, free_ns=free_ns)


def _was_free_ns(run: Recorded, ledger: Ledger, one: _Waited, rivals: Sequence[Waiting]) -> int:
    """For how long at once the lock was free, without a fault in the way, while its requests were answered; 0 if it
    was not, or too shortly."""
    wait = Wait(one.client, one.key, one.since_ns, one.until_ns)
    calm = Waiting(run, ledger, wait, names_of(run, one.key)).calm_times(rivals)
    answered = ledger.links.of(one.client).answered
    long = (done - began for began, done in calm if answered(began, done) >= LEAST_ANSWERS)
    return max((length for length in long if length >= SLACK_NS), default=0)


def _is_only_way(run: Recorded, ledger: Ledger, change: Change, granted: pd.DataFrame) -> bool:
    """Whether each of these acquires, if the node was watched all the while, had added an entry to that key."""
    assert run.watched is not None, "else there would be no ledger"
    node = str(change["node"])
    adds = where(ledger.rows, did=ADD, is_in_call=True, key=change["key"], node=node)
    added = set(rows_of(adds, "task", "invoke_ns"))
    watched = [
        (task, invoke_ns)
        for task, invoke_ns, done_ns in rows_of(granted, "client", "invoke_ns", "complete_ns")
        if run.watched.saw(node, invoke_ns, done_ns)
    ]
    return len(watched) >= GRANTS and added.issuperset(watched)


def _finding(run: Recorded, ledger: Ledger, waited: Sequence[_Waited]) -> Finding:
    lost = sum(one.change["what"] in LOST for one in waited)
    how = "its entry was gone" if lost else "another client had taken its entry out of the lock's state"
    how = "its entry was gone with the queue's key" if lost == len(waited) else how
    text = (
        f"{plural(len(waited), 'acquire')} waited for up to {milliseconds(longest_ms(waited))} for a turn that "
        f"could not come: {how}, it added none again, and meanwhile up to "
        f"{plural(max(one.overtaken for one in waited), 'later acquire')} got in"
    )
    if free_ns := max(one.free_ns for one in waited):
        text += f"; once the lock was free for {milliseconds(free_ns / 1e6)}"
    return REMOVED.of(waited, text, partial(_example, run, ledger), longest(waited))


def _example(run: Recorded, ledger: Ledger, one: _Waited) -> dict[str, object]:
    return {
        "client": one.client,
        "key": one.key,
        **run.lasted(one),
        "answers": one.answers,
        "overtaken": one.overtaken,
        "is_apart": one.is_apart,
        **({"free_ms": one.free_ns / 1e6} if one.free_ns else {}),
        "out_of": str(one.change["key"]),
        **_went(run, ledger, one.change),
    }


def _went(run: Recorded, ledger: Ledger, change: Change) -> dict[str, object]:
    """How an entry went: by whose request, or with its key. Whose request gave the key its time to live last."""
    if change["what"] not in LOST:
        return {"by": client_of(change), "took": how_sent(run, change)}
    its = {"key": change["key"], "node": change["node"]}
    last = where(ledger.rows, ledger.rows["at_ns"] <= change["at_ns"], **its, did=RENEW).index
    found: dict[str, object] = {"went": str(change["what"]), "node": str(change["node"])}
    if not len(last) or change["what"] != "expired":
        return found
    renewal = ledger.change(int(last[-1]))
    return found | {"renewed": f"{client_of(renewal)} had given it time to live last: {how_sent(run, renewal)}"}


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, (key, where) = case.example, case.texts("key", "out_of")
    if "went" in example:
        node, renewed = case.text("node"), str(example.get("renewed", ""))
        how = f"{where} expired on {node}" if example["went"] == "expired" else f"{node} lost {where}"
        how, again = f"{how}, and its entry went with it{renewed and f' ({renewed})'}", ""
    else:
        how = f"{case.text('by')} took its entry out of {where}: {case.text('took')}"
        again = f" and never asked for {key} itself" if example["is_apart"] else ""
    free_ms = case.example.get("free_ms")
    free = f", and the lock was free for {milliseconds(float(free_ms))} of that time" if free_ms else ""
    return Told(
        f"{case.text('client')} was waiting for {key} when, at {case.at()}, {how}. Its acquire went on for "
        f"{case.lasting()} and had {case.counted('answers', 'request')} answered, but it added no entry again{again}; "
        f"{case.counted('overtaken', 'later acquire')} of other clients got in before it ended{free}.",
        cause="entry lost" if "went" in example else "entry removed",
    )


REMOVED: Final = FindingKind(
    "waits-without-entry",
    "liveness",
    _told,
    stands_for="entry removed",
    noun="wait(s) without an entry in the queue",
    surveyed="free",
)
