"""Did a client wait for a turn that could not come, because another client had taken its entry out of the queue?

A queue may lose the entry of a client that waits: others take out who seems to be gone, and a client that stood still
for a while is not. It must notice that, and come back. It waited for nothing if all of this was so, in one acquire that
was not granted:

- a request of another client had taken its entry out, and the acquire added none again (`harness.history.entries`);
- then it went on for as long as a gap without a grant takes (`harness.checkers.starvation.least_gap_ms`), the client
  ran, and the nodes answered `LEAST_ANSWERS` of its requests or more;
- none of these named a key of the lock itself, which every acquire must ask for that is granted;
- `OVERTAKEN` acquires of other clients, or more, that had begun later were granted meanwhile.

`LEAST` such acquires are found. This costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fencepost.history import process_of
from fencepost.text import milliseconds, plural, printable
from harness.checkers.free_waits import LEAST_ANSWERS, ran_ns
from harness.checkers.starvation import least_gap_ms
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import client_of, how_sent
from harness.explain.words import lasting
from harness.figures import KeyFigures, Row
from harness.history.entries import removed_entries
from harness.history.free_times import names_of
from harness.history.key_owners import rows_of
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding, shown

LEAST: Final = 2
OVERTAKEN: Final = 5


class Figures(KeyFigures, frozen=True):
    """`waits`: acquires that went on when another client had taken their entry out. `longest_ms`: from then on; None
    without any."""

    waits: int
    longest_ms: float | None

    def rows(self) -> Iterator[Row]:
        if self.waits:
            waits = plural(self.waits, "acquire")
            text = f"{waits} waited without an entry in the queue, for up to {milliseconds(self.longest_ms)}"
            yield Row("overtaken", text, order=61)


class _Waited(NamedTuple):
    """`change`: the one that took the entry out. `until_ns`: when the acquire ended. `overtaken`: how many
    acquires that began later were granted first."""

    client: str
    key: str
    change: Change
    until_ns: int
    answers: int
    overtaken: int

    @property
    def since_ns(self) -> int:
        return int(self.change["at_ns"])

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.since_ns


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record."""
    ledger = run.whole_ledger
    if ledger is None or not run.is_exclusive:
        return Answer()
    waited = sorted(_waited(run, ledger), key=lambda one: one.since_ns)
    waited = waited if len(waited) >= LEAST else []
    longest = max(waited, key=lambda one: one.length_ns, default=None)
    figures = Figures(len(waited), longest and longest.length_ns / 1e6)
    return Answer(figures, () if longest is None else (_finding(run, waited, longest),))


def _waited(run: Recorded, ledger: Ledger) -> Iterator[_Waited]:
    ops = run.ops
    acquires = ops[(ops["f"] == "acquire").to_numpy(bool)]
    ended = {
        (client, invoke_ns): (str(key), str(outcome), done_ns)
        for client, key, outcome, invoke_ns, done_ns in rows_of(
            acquires, "client", "key", "outcome", "invoke_ns", "complete_ns"
        )
    }
    granted = acquires[(acquires["outcome"] == "ok").to_numpy(bool)]
    for client, changes in removed_entries(ledger).items():
        for call, change in {one.since_ns: one.change for one in reversed(changes)}.items():
            key, outcome, done_ns = ended.get((client, call), ("", "ok", 0))
            since_ns = int(change["at_ns"])
            if outcome == "ok" or ran_ns(run, client, since_ns, max(done_ns, since_ns)) < least_gap_ms(run) * 1e6:
                continue
            later = (granted["key"] == key) & (granted["client"] != client) & (granted["invoke_ns"] > since_ns)
            past = int((later & (granted["complete_ns"] < done_ns)).sum())
            answers = ledger.links.of(client).answered(since_ns, done_ns)
            if past < OVERTAKEN or answers < LEAST_ANSWERS:
                continue
            names, sent = names_of(run, ledger, key), ledger.sent
            asked = (one for node in run.nodes for one in sent.between(process_of(client), node, since_ns, done_ns))
            if all(names.isdisjoint(one.keys) for one in asked):
                yield _Waited(client, key, change, done_ns, answers, past)


def _finding(run: Recorded, waited: Sequence[_Waited], longest: _Waited) -> Finding:
    text = (
        f"{plural(len(waited), 'acquire')} waited for up to {milliseconds(longest.length_ns / 1e6)} for a turn that "
        "could not come: another client had taken its entry out of the lock's state, it added none again, and "
        f"up to {max(one.overtaken for one in waited)} later acquires were granted meanwhile"
    )
    examples = [
        {
            "client": one.client,
            "key": one.key,
            "at_ms": run.at_ms(one.since_ns),
            "for_ms": one.length_ns / 1e6,
            "answers": one.answers,
            "overtaken": one.overtaken,
            "out_of": str(one.change["key"]),
            "by": client_of(one.change),
            "took": how_sent(run, one.change),
        }
        for one in shown(waited, longest)
    ]
    return REMOVED.found("lock", text, len(waited), examples)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client, key, where, by, took = (printable(str(example[name])) for name in ("client", "key", "out_of", "by", "took"))
    answers, past = (plural(int(example[name]), what) for name, what in _COUNTED.items())
    return Told(
        f"{client} was waiting for {key} when, at {float(example['at_ms']):+,.1f} ms, {by} took its entry out of "
        f"{where}: {took}. Its acquire went on for {lasting(float(example['for_ms']) * 1e6)} and had {answers} "
        f"answered, but it added no entry again and never asked for {key} itself; {past} of other clients got in "
        "before it ended.",
        cause="entry removed",
    )


_COUNTED: Final = {"answers": "request", "overtaken": "later acquire"}
REMOVED: Final = FindingKind(
    "waits-without-entry",
    "liveness",
    _told,
    stands_for="entry removed",
    noun="wait(s) without an entry in the queue",
    surveyed="free",
)
