"""Does a client whose subscription was lost subscribe again?

A client that waits for a message of a release is not told any more once the connection of its subscription has ended.
A lock that goes on by a timer alone finds the key free only when that fires, and each release is missed. It is to blame
for a client if all of this was so `LEAST` times, each in one silence of at least `short_ns` within an acquire:

- all subscriptions of the client had ended; the last one because the node had closed its connection, unasked, or the
  proxy had, in a partition: either way the client's side was closed;
- the client had subscribed in this acquire, or had kept the subscription through an earlier one;
- the key came free meanwhile because it was deleted, and a request named the channel, or the node itself tells of keys;
- then it slept on for `SLACK_MS` and more, no fault was in the way, and the client ran;

and if it never subscribed again, although the node had answered it `RETRY_NS` before the last of these ended. Libraries
connect anew every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fencepost.history import process_of
from fencepost.text import milliseconds, plural
from harness.checkers.vain_waits import LEAST_OVERSLEPT
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.commands import BLOCKING
from harness.history.fault_windows import FOREVER_NS, merged
from harness.history.groups import grouped
from harness.history.ledger import Ledger
from harness.history.node_requests import NodeRequests
from harness.history.recorded import Recorded
from harness.history.sessions import OF_THE_NODE, Subscription, Subscriptions
from harness.history.stretches import Stretch, in_order, longest
from harness.history.waits import SLACK_NS, Wait, in_the_way, short_ns, waiting_clients
from harness.verdict import Answer, Finding

LEAST: Final = LEAST_OVERSLEPT
RETRY_NS: Final = 6_000_000_000


class Figures(KeyFigures, frozen=True):
    """`sleeps`: of clients that had lost their subscription. `total_ms`: for how long they slept on, in all, after
    the key had come free."""

    sleeps: int
    total_ms: float

    def rows(self) -> Iterator[Row]:
        if self.sleeps:
            sleeps = plural(self.sleeps, "sleep")
            text = f"{sleeps} without a subscription while the key came free, {milliseconds(self.total_ms)} in all"
            yield Row("untold", text, order=61)


@dataclass(frozen=True, slots=True)
class _Sleep(Stretch):
    """The client was silent from `began_ns` until `until_ns`, and the key came free at `since_ns`. `answered_ns`:
    when the node of the subscription had answered the client again."""

    wait: Wait
    lost: Subscription
    answered_ns: int
    began_ns: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record."""
    ledger = run.whole_ledger
    if ledger is None or not run.is_exclusive or run.had_no_access:
        return Answer()
    subscribed = Subscriptions.read(ledger.wire)
    is_any_lost = any(one.is_lost for own in subscribed.of.values() for one in own)
    slept = _sleeps(run, ledger, subscribed) if is_any_lost else ()
    found = grouped((process_of(sleep.wait.client), sleep) for sleep in slept)
    lasted = [own for own in found.values() if len(own) >= LEAST and _was_long_enough(own)]
    sleeps = in_order(one for own in lasted for one in own)
    figures = Figures(len(sleeps), sum(one.length_ns for one in sleeps) / 1e6)
    return Answer(figures, (_finding(run, sleeps, len(lasted)),) if sleeps else ())


def _was_long_enough(sleeps: Sequence[_Sleep]) -> bool:
    last = max(sleeps, key=lambda one: one.until_ns)
    return last.until_ns - last.answered_ns >= RETRY_NS


def _sleeps(run: Recorded, ledger: Ledger, subscribed: Subscriptions) -> Iterator[_Sleep]:
    sent, every = ledger.sent, waiting_clients(run, ledger)
    for one in every:
        wait = one.wait
        lost = _last(run, subscribed, wait)
        if lost is None or not lost.is_lost or lost.until_ns >= wait.until_ns or not _is_kept(run, wait, lost):
            continue
        answered_ns = _answered_ns(sent, wait, lost)
        silent = [(began, until) for began, until in one.silences(short_ns(run)) if began >= answered_ns]
        came_free = [since for since, _ in one.calm_times(every)] if silent else []
        way = in_the_way(run, wait, [other.wait for other in every])
        for began, until in silent:
            freed = next((at for at in came_free if began < at < until and one.was_freed_by("deleted", at)), None)
            if freed is None or merged(way, freed, until) or not _was_told(sent, subscribed, lost, began, until):
                continue
            if one.ran_ns(freed, until) >= SLACK_NS:
                yield _Sleep(freed, until, wait, lost, answered_ns, began)


def _last(run: Recorded, subscribed: Subscriptions, wait: Wait) -> Subscription | None:
    """Of the subscriptions of the client's process, the one that ended last."""
    process = process_of(wait.client)
    ends = (end.at_ns for end in run.ends if process_of(end.client) == process and end.at_ns >= wait.until_ns)
    until_ns = min(ends, default=FOREVER_NS)
    own = (one for one in subscribed.of.get(process, ()) if one.sent_ns <= until_ns)
    return max(own, key=lambda one: one.until_ns, default=None)


def _is_kept(run: Recorded, wait: Wait, lost: Subscription) -> bool:
    """Whether the subscription was to last for this wait: it was made in it, or had outlasted an earlier acquire, and
    was there when the wait began or when that acquire did."""
    if lost.sent_ns >= wait.since_ns:
        return True
    ops = run.ops
    own = (ops["f"] == "acquire") & (ops["client"] == wait.client) & (run.config.users_per_client == 1)
    within = (ops["complete_ns"] > lost.sent_ns) & (ops["complete_ns"] < min(lost.until_ns, wait.since_ns))
    within &= (ops["invoke_ns"] > lost.sent_ns) | (lost.until_ns >= wait.since_ns)
    return bool((own & within).any())


def _answered_ns(sent: NodeRequests, wait: Wait, lost: Subscription) -> int:
    """When the client sent the first request since then that the node answered; forever if it sent none."""
    asked = sent.between(wait.client, lost.node, lost.until_ns, wait.until_ns)
    return min((one.from_client_ns for one in asked if one.reply is not None), default=FOREVER_NS)


def _was_told(sent: NodeRequests, subscribed: Subscriptions, lost: Subscription, began_ns: int, until_ns: int) -> bool:
    """Whether a subscriber to the same channels was sent something in this time."""
    if lost.is_of_the_node:
        return any(one.node == lost.node and OF_THE_NODE in one.text for one in subscribed.messages)
    return any(map(lost.names, sent.words(lost.node, began_ns, until_ns, BLOCKING)))


def _finding(run: Recorded, sleeps: Sequence[_Sleep], clients: int) -> Finding:
    total = milliseconds(sum(one.length_ns for one in sleeps) / 1e6)
    text = (
        f"{plural(clients, 'client')} never subscribed again after the connection had been closed, and slept "
        f"{plural(len(sleeps), 'time')} beside a key that had come free, {total} in all (TTL {run.lease_ms:.0f} ms)"
    )
    return UNSUBSCRIBED.of(sleeps, text, partial(_example, run), longest(sleeps))


def _example(run: Recorded, one: _Sleep) -> dict[str, object]:
    return {
        "client": one.wait.client,
        "key": one.wait.key,
        **run.lasted(one),
        "silent_since_ms": run.at_ms(one.began_ns),
        "node": one.lost.node,
        "closed_by": one.lost.by,
        "subscribed": f"{one.lost.command} {' '.join(one.lost.channels)}",
        "subscribed_ms": run.at_ms(one.lost.sent_ns),
        "lost_ms": run.at_ms(one.lost.until_ns),
        "answered_ms": run.at_ms(one.answered_ns),
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, key, node, words = case.texts("client", "key", "node", "subscribed")
    is_by_node = case.example["closed_by"] == "node"
    closed = f"{node} closed that connection" if is_by_node else "A fault cut that connection"
    return Told(
        f"{client} had sent {words} to {node} at {case.at('subscribed_ms')}. {closed} at {case.at('lost_ms')}; {node} "
        f"answered {client} again from {case.at('answered_ms')} on, but {client} never subscribed again. While it "
        f"waited for {key} it was silent since {case.at('silent_since_ms')}; the key came free at {case.at()}, "
        f"and {client} slept on for {case.lasting()}.",
        cause="subscription lost",
    )


UNSUBSCRIBED: Final = FindingKind(
    "sleeps-unsubscribed",
    "liveness",
    _told,
    stands_for="subscription lost",
    noun="sleep(s) without a subscription",
    surveyed="free",
)
