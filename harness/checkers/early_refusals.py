"""Did the lock refuse its clients long before the time that it was told to wait?

`--wait` tells a lock for how long an acquire may keep trying. A lock that counts its tries, or that never waits, is
done sooner, each time after about as long: that is how it is built. But a lock that waits for some of its clients, and
refuses most of them at the first setback (another client answered the wake-up first, say), has not done what it was
asked for. That is certain if all of this was so:

- of the acquires that were refused, half took no longer than `SHORT` of that time; these are `LEAST` or more;
- a share of `WAITED` of all, and `LEAST` or more, granted or not, lasted for `LEAST_MS` or more and `RATIO` times as
  long as that half of the refused ones; time for which their clients were stopped or starved of CPU does not count.

Only calls count that no user cancelled, and during which no fault was in force on the lock's nodes, on the client or
its links. For a TTL or a second after a fault a client may have to connect anew, so every node must have answered it
soon after the call began. For the same reason the first acquire of each life of a client does not count. A lock may
refuse at once what its own process has or is getting. So no other task of that process may have been inside, acquiring
with success or releasing meanwhile, and the client's own last grant was followed by a release. And a lock may refuse at
its first answer what it does not want to wait for: what lives for longer than its client would wait, say. So a call
counts only if it had asked, and asked again. Locks that let several clients in are not judged. This costs time and no
safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from fencepost.history import process_of
from fencepost.text import milliseconds, out_of, printable
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.fault_windows import FOREVER_NS, merged
from harness.history.groups import Bools, Ints, columns_of, rows_of, where, which
from harness.history.node_requests import Request
from harness.history.recorded import Recorded, named
from harness.history.standing_still import stood_still_ns
from harness.history.waits import SECOND_NS
from harness.verdict import Answer

SHORT: Final = 1 / 8
RATIO: Final = 4
LEAST: Final = 5
WAITED: Final = 0.02
LEAST_MS: Final = 250
_EXAMPLES: Final = 3


class Figures(KeyFigures, frozen=True):
    """`refused`: acquires that ended without the lock while no fault was in the way. `early`: those of them that gave
    up early; `after_ms`: how long half of these took at most, None without any."""

    refused: int
    early: int
    after_ms: float | None

    def rows(self) -> Iterator[Row]:
        if self.early:
            acquires = out_of(self.early, self.refused, "refused acquire", "refused acquires")
            yield Row("gave up", f"{acquires} ended long before the time to wait was over", order=89)


def check(run: Recorded) -> Answer:
    """No figures where the lock was not told to wait, or lets several clients in."""
    wait_ns = round(run.config.wait_ms * 1e6)
    if not wait_ns or not run.is_exclusive or run.ledger is None:
        return Answer()
    calls = run.calls("acquire")
    calls = where(calls, calls.duplicated(["client", "life"]), outcome=("ok", "fail"))
    calls = calls[_counts(run, calls)]
    early, longest_ns = _early(run, calls, wait_ns)
    if len(early):
        # Only where it matters, because the answers to many calls are many.
        calls = calls.drop(early.index[[not _asked_again(run, row) for row in early.itertuples()]])
        early, longest_ns = _early(run, calls, wait_ns)
    refused = where(calls, outcome="fail")
    if not len(early):
        return Answer(Figures(len(refused), 0, None))
    figures = Figures(len(refused), len(early), float(np.median(_took_ns(early))) / 1e6)
    text = (
        f"the lock was told to wait for {milliseconds(run.config.wait_ms)}, but "
        f"{out_of(len(early), len(refused), 'refused acquire', 'refused acquires')} gave up early, half of them after "
        f"{milliseconds(figures.after_ms)} or less, although no fault was in the way; other acquires lasted for up to "
        f"{milliseconds(longest_ns / 1e6)}"
    )
    examples = [_example(run, row) for row in early.iloc[:_EXAMPLES].itertuples()]
    return Answer(figures, (GAVE_UP.found("lock", text, len(early), examples),))


def _early(run: Recorded, calls: pd.DataFrame, wait_ns: int) -> tuple[pd.DataFrame, int]:
    """The acquires that were refused early; none if they are too few, or if the lock cannot be seen to wait. And for
    how long the longest acquire ran."""
    took, is_refused = _took_ns(calls), (calls["outcome"] == "fail").to_numpy(bool)
    half_ns = float(np.median(took[is_refused])) if is_refused.any() else 0.0
    is_early = is_refused & (took <= SHORT * wait_ns)
    long_ns = max(LEAST_MS * 1e6, RATIO * half_ns)
    waited = calls[took >= long_ns]
    ran = _took_ns(waited) - stood_still_ns(waited, run)
    if half_ns > SHORT * wait_ns or is_early.sum() < LEAST or (ran >= long_ns).sum() < max(LEAST, WAITED * len(calls)):
        return calls.iloc[:0], 0
    return calls[is_early], int(ran.max())


def _asked_again(run: Recorded, call: Any) -> bool:
    """Whether the client had asked a node for the key, was answered, and asked the same once more."""
    answered = _answered(run, str(call.client), int(call.invoke_ns), int(call.complete_ns))
    asked = [
        (node, one.command, *one.arguments[:1])
        for one, node in answered
        if any(str(call.key) in name for name in one.keys)
    ]
    return len(asked) > len(set(asked))


def _took_ns(calls: pd.DataFrame) -> Ints:
    invoke, complete = columns_of(calls, "invoke_ns", "complete_ns")
    return complete - invoke


def _counts(run: Recorded, calls: pd.DataFrame) -> Bools:
    """The calls that cannot have been ended by a fault, by their user, or by what their own process held."""
    invoke, complete = columns_of(calls, "invoke_ns", "complete_ns")
    counts = which(calls, ~_may_have_it(run).reindex(calls.index), cancelled=False)
    settled_ns = max(round(run.config.ttl_ms * 1e6), SECOND_NS)
    windows = run.fault_windows
    on_nodes = [(began, done) for event, began, done in windows if not set(run.nodes).isdisjoint(event.hit_nodes)]
    for client in run.config.user_names:
        own = np.flatnonzero(calls["client"] == client)
        hit = [(began, done) for event, began, done in windows if client in event.hit_clients] + on_nodes
        after = [(done, done + settled_ns) for _, done in hit]
        hit += [*run.wrong_clocks.times, *_of_other_tasks(run, client)]
        counts[own] &= ~_touched(invoke[own], complete[own], merged(hit, 0, FOREVER_NS))
        is_after = _touched(invoke[own], complete[own], merged(after, 0, FOREVER_NS))
        for place in own[is_after & counts[own]].tolist():
            counts[place] = _was_connected(run, client, int(invoke[place]), int(complete[place]))
    return counts


def _was_connected(run: Recorded, client: str, since_ns: int, until_ns: int) -> bool:
    """Whether every node answered a request that the client sent soon after this call began."""
    soon_ns = min(until_ns, since_ns + LEAST_MS * 1_000_000 // RATIO)
    return run.ledger is not None and all(
        any(one.reply is not None for one in run.ledger.sent.between(client, node, since_ns, soon_ns))
        for node in run.nodes
    )


def _may_have_it(run: Recorded) -> pd.Series[bool]:
    """By acquire or release, whether its client's last acquire that was not refused was not followed by a release."""
    steps = run.ops[run.ops["f"].isin(["acquire", "release"])].sort_values("invoke_ns", kind="stable")
    has_it = (steps["f"] == "acquire").where((steps["f"] == "release") | (steps["outcome"] != "fail"))
    life = [steps["client"].astype(str), steps["life"]]
    return has_it.astype("boolean").groupby(life).ffill().groupby(life).shift(fill_value=False).fillna(False)


def _of_other_tasks(run: Recorded, client: str) -> Iterator[tuple[int, int]]:
    """From when another task of the client's process began to acquire the lock until it had released it."""
    others = {name for name in run.config.user_names if process_of(name) == process_of(client)} - {client}
    yield from rows_of(where(run.sections, client=others), "asked_ns", "end_ns")
    yield from rows_of(where(run.ops, f="release", client=others), "invoke_ns", "complete_ns")


def _touched(invoke: Ints, complete: Ints, windows: Sequence[tuple[int, int]]) -> Bools:
    """Which of these times touch one of the windows, which are in order."""
    if not windows:
        return np.zeros(len(invoke), np.bool_)
    began, done = np.array(windows, np.int64).T
    place = np.minimum(np.searchsorted(done, invoke), len(done) - 1)
    touched: Bools = (began[place] <= complete) & (done[place] >= invoke)
    return touched


def _example(run: Recorded, row: Any) -> dict[str, object]:
    return {
        **named(run.ops.loc[row.Index]),
        "at_ms": run.at_ms(row.invoke_ns),
        "for_ms": (row.complete_ns - row.invoke_ns) / 1e6,
        "wait_ms": run.config.wait_ms,
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    since_ns, for_ns = run.at_ns(case.example["at_ms"]), round(float(case.example["for_ms"]) * 1e6)
    return Told(
        f"{case.text('client')}'s acquire at {case.at()} ended without the lock after {case.lasting()}, although it "
        f"was told to wait for {case.lasting('wait_ms')}"
        f"{_last_answer(run, str(case.example['client']), since_ns, since_ns + for_ns)}."
    )


def _last_answer(run: Recorded, client: str, since_ns: int, until_ns: int) -> str:
    """`; the answer to its last request, EVAL to n1, was 0`; empty if none is known to be its own."""
    answered = _answered(run, client, since_ns, until_ns)
    if not answered:
        return ""
    last, node = answered[-1]
    return (
        f"; the answer to its last request, {printable(last.command)} to {node}, was {printable(str(last.reply)[:60])}"
    )


def _answered(run: Recorded, client: str, since_ns: int, until_ns: int) -> list[tuple[Request, str]]:
    """The client's own requests in this time that were answered, and by which node, in the order in which they were
    sent. Of a task, these are the ones that are known to be its own."""
    if run.ledger is None:
        return []
    sent, process = run.ledger.sent, process_of(client)
    found = [(one, node) for node in run.nodes for one in sent.between(client, node, since_ns, until_ns)]
    own = [(one, node) for one, node in found if one.reply is not None and (one.task or process) == client]
    return sorted(own, key=lambda pair: pair[0].from_client_ns)


GAVE_UP: Final = FindingKind(
    "gave-up-early", "liveness", _told, noun="acquire(s) that gave up early", surveyed="timeout"
)
