"""The ways in which a client can have waited in vain beside a free lock (`harness.checkers.free_waits`).

A client that did ask, had answers, and was not let in although all the rest was so for `TIMES` as long, has waited in
vain, too. Faults may come in between, if the key was free all the while: parts of a lease or more, each of them with
answers, add up. So it has after as long as a gap without a grant takes (`harness.checkers.starvation.least_gap_ms`) if
there was an entry in the lock's state for which no client comes (`harness.history.dead_entries`): a lock may wait for
another client's turn, but no longer than a few leases for one that is gone, or whose user had cancelled the call. In
the second case, and if the call had given up, that client ran and had answers from the nodes all that time, no fault
was in force on it, and what the call may leave had been there for its TTL before: it could have taken its entry out.
Attempts that set the key and undo it take it for that time. Of a lock that keeps nothing of the key on its nodes but
such entries, in which the first client is inside, that is so while no client is inside, if of all entries that are
there this one came first.

A client that had subscribed to a channel is not bound to whole seconds. If it then said and heard nothing for the
lease, or a second if that is longer, and `SLACK_MS` more, the last lease that it saw had run out, and it did not look
again. If the lock was free and all the rest was so for `SLACK_MS` of that time, it has waited in vain, and the lock is
to blame if this happened `LEAST_OVERSLEPT` times: no timer wakes its clients. So it is, for however short a time the
lock was free, if it slept so while the key expired, and an acquire was granted first that had begun after that: there
was no message to lose, and a client that looked got in.

The same holds of a client that was blocked on a list if the key had expired, which pushes nothing, and if its own time
limit would wake it more than a second after that, and after the time that whole seconds allow. Such a client need not
have been silent for a second, if one of them was. All others that waited must have been blocked so, too: one that looks
again may wake them.

A client that was told of a release (a message that names the key reached it when the key was deleted) looks at once. If
it said and heard nothing for half a lease, or half a second if that is longer, it slept on if all the rest was so for
`SLACK_MS` of that time.
The lock is to blame if this happened `LEAST_OVERSLEPT` times. A lock that keeps anything else of the key on its nodes
may have told it of another client's turn, so nothing is said of that one.

So it is of a client that looked, was refused, and subscribed only when the key had been deleted since: the message was
gone by then, and it must look once more.

So it is of a client that was blocked on a list (BLPOP, say) when a request pushed onto that list and deleted it at
once: that wakes no client (`harness.history.sessions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

import numpy as np

from fencepost.history import process_of
from harness.checkers.starvation import least_gap_ms
from harness.history.commands import BLOCK_ON_LISTS, LISTEN
from harness.history.dead_entries import DeadEntry, dead_entries
from harness.history.dead_tickets import dead_tickets
from harness.history.groups import Ints, grouped, rows_of, where
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded
from harness.history.sessions import LostPushes, Message, Subscriptions
from harness.history.stretches import Stretch, longest
from harness.history.waits import (
    SECOND_NS,
    SLACK_NS,
    Span,
    Wait,
    Waiting,
    patience_ns,
    short_ns,
    silences,
    waiting_clients,
)

TIMES: Final = 3
LEAST_ANSWERS: Final = 3
LEAST_OVERSLEPT: Final = 3
_SOON_NS: Final = 50_000_000
"""A release that tells of itself deletes the key within this time."""


@dataclass(frozen=True, slots=True)
class Vain(Stretch):
    """A time in which a client waited beside a free lock. `answers`: how many of its requests were answered then; 0 if
    it sent none. `calm_ns`: for how long no fault was in the way; 0 if that was so all the time. `freed`: the change
    that freed the key last, if it is on record. `entry`: for which no client came, and which was there all the time.
    `silent_ns`: for how long the client had said and heard nothing in all, if that is why it has waited in vain.
    `told_ns`: when a message of the release had reached it, if that is why; or `subscribed_ns`, when it had subscribed,
    after the release; or `push`, which deleted the list on which it was blocked, and onto which it had pushed.
    `is_unused`: only that no client was inside."""

    wait: Wait
    answers: int = 0
    calm_ns: int = 0
    freed: Change | None = None
    entry: DeadEntry | None = None
    silent_ns: int = 0
    told_ns: int = 0
    subscribed_ns: int = 0
    push: Change | None = None
    is_unused: bool = False


def vain_waits(run: Recorded, ledger: Ledger) -> list[Vain]:
    """The longest one of each wait."""
    every, patience = waiting_clients(run, ledger), patience_ns(run)
    long = [one for one in every if one.wait.length_ns >= patience]
    subscriptions, pushes = Subscriptions.read(ledger.wire), LostPushes.of(ledger)
    dead, tickets = dead_entries(run, ledger), dead_tickets(run, ledger)
    releases = _Releases.of(every, ledger, subscriptions)
    vain, overslept, ignored = list[Vain](), list[Vain](), list[Vain]()
    for one in every:
        asleep, blocked = list(_asleep(one, subscriptions)), list(_blocked(one))
        told = releases.heard(one) or releases.missed(one) or list(_unwoken(one, pushes))
        if one.wait.length_ns < patience and not asleep and not blocked and not told:
            continue
        calm, left = one.calm_times(long), [*dead[one.wait.key], *tickets[one.wait.key]]
        found = [each for span in calm for each in _in_vain(one, span, left)]
        found = found or list(_asked_on(one, calm)) or list(_in_line(one, long, dead[one.wait.key]))
        slept = [] if found else list(_overslept(one, calm, asleep))
        slept += [] if found or slept else _overtaken(one, asleep)
        on = [] if found or slept or not (told or blocked) else one.calm_times(every)
        slept += [each for each in _overslept(one, on, blocked) if _is_past_the_end(one, each.since_ns, every)]
        slept_on = [] if slept else list(_slept_through(one, on, told))
        if some := found or slept or slept_on:
            worst = longest(some)
            if any(is_late and at_ns == worst.since_ns for at_ns, _, _, is_late in told):
                worst = replace(worst, subscribed_ns=worst.since_ns)
            kind = vain if found else overslept if slept else ignored
            kind.append(replace(worst, freed=one.last_freed(worst.since_ns)))
    if max((one.silent_ns for one in overslept), default=0) < _asleep_ns(run):
        overslept = []
    often = [some for some in (overslept, ignored) if len(some) >= LEAST_OVERSLEPT]
    return [*vain, *(one for some in often for one in some)]


def _in_vain(one: Waiting, span: Span, left: Sequence[DeadEntry]) -> Iterator[Vain]:
    """Of a time in which the key was free and nothing was in the way: the parts in which the client said nothing, or
    all of it if it did, and was answered."""
    patience = patience_ns(one.run)
    if span[1] - span[0] >= patience:
        for quiet in silences(one.run, one.wait, one.client, span, patience):
            yield Vain(*quiet, one.wait)
        yield from _behind(one, span, left)


def _in_line(one: Waiting, others: Sequence[Waiting], dead: Sequence[DeadEntry]) -> Iterator[Vain]:
    """Of a lock that keeps nothing of the key but its clients' entries: behind one that had come first of all that are
    there."""
    if one.names or not dead:
        return
    put_ns = one.ledger.columns["at_ns"]
    for span in one.unused_times(others):
        there = [entry for entry in one.ledger.entries if put_ns[entry.added] < span[0] < entry.until_ns]
        came = grouped(((entry.node, entry.key), put_ns[entry.added]) for entry in there)
        first = {place: min(times) for place, times in came.items()}
        ahead = [each for each in dead if each.put["at_ns"] == first.get((each.put["node"], each.put["key"]))]
        yield from (replace(vain, is_unused=True) for vain in _behind(one, span, ahead))


def _behind(one: Waiting, span: Span, left: Sequence[DeadEntry]) -> Iterator[Vain]:
    """All of such a time, if there was an entry for which no client came."""
    patience, (since_ns, until_ns) = patience_ns(one.run), span
    there = (entry for entry in left if entry.dead_ns < until_ns <= entry.until_ns and _is_in_its_way(one, entry))
    for entry in sorted(there, key=lambda entry: entry.put["at_ns"]):
        began = max(since_ns, entry.dead_ns)
        if entry.died_ns > began and not _could_undo(one, entry, began, until_ns):
            continue
        answers = one.client.answered(began, until_ns)
        least = max(patience, round(least_gap_ms(one.run) * 1e6))
        if answers >= LEAST_ANSWERS and one.ran_ns(began, until_ns) >= least:
            yield Vain(began, until_ns, one.wait, answers, entry=entry)
            return


def _is_in_its_way(one: Waiting, entry: DeadEntry) -> bool:
    """A client whose turn has passed keeps itself out, and no other."""
    is_passed = entry.left is not None and entry.left.how == "passed"
    return not is_passed or entry.put["task"] == one.wait.client


def _asked_on(one: Waiting, calm: Sequence[Span]) -> Iterator[Vain]:
    """The times in which the key was free, and nothing was in the way for long enough in all while the client had
    answers."""
    lease_ns = round(one.run.lease_ms * 1e6)
    for since_ns, until_ns in one.free_times(*one.span):
        parts = [(began, done) for began, done in calm if since_ns <= began and done <= until_ns]
        asked = [(span, one.client.answered(*span)) for span in parts if one.ran_ns(*span) >= lease_ns]
        asked = [(span, answers) for span, answers in asked if answers >= LEAST_ANSWERS]
        if sum(one.ran_ns(*span) for span, _ in asked) < TIMES * patience_ns(one.run):
            continue
        (began, _), done = asked[0][0], asked[-1][0][1]
        calm_ns = sum(until - since for (since, until), _ in asked)
        answers = sum(answers for _, answers in asked)
        yield Vain(began, done, one.wait, answers, calm_ns if calm_ns < done - began else 0)


def _could_undo(one: Waiting, entry: DeadEntry, since_ns: int, until_ns: int) -> bool:
    """Whether the process of the entry was at work in this time, the nodes answered it, and no fault was in force on
    it. When a lease is over, or a turn has passed, it does not matter."""
    if entry.left is not None and entry.left.how in ("over", "passed"):
        return True
    run, client = one.run, str(entry.put["client"])
    for event, began, done in run.fault_windows:
        if began < until_ns and done > since_ns and client in map(process_of, event.hit_clients):
            return False
    if any(process_of(end.client) == client and since_ns < end.at_ns < until_ns for end in run.ends):
        return False
    return one.ledger.links.of(client).answered(since_ns, until_ns) >= LEAST_ANSWERS


def _asleep_ns(run: Recorded) -> int:
    """A client that has subscribed, and has said and heard nothing for so long, does not look again by itself."""
    return max(round(run.lease_ms * 1e6), SECOND_NS) + SLACK_NS


def _asleep(one: Waiting, subscriptions: Subscriptions) -> Iterator[Span]:
    """When the client was subscribed to something, and silent for so long that it does not look again by itself. It
    may close the connection when it gives up."""
    least_ns = _asleep_ns(one.run)
    for began, done in one.silences(least_ns) if one.wait.length_ns >= least_ns else ():
        until_ns = min(done, subscriptions.until_ns(one.wait.client, began))
        if until_ns - began >= least_ns:
            yield began, until_ns


def _overslept(one: Waiting, calm: Sequence[Span], asleep: Sequence[Span]) -> Iterator[Vain]:
    for began, done in asleep:
        for since, until in calm:
            since, until = max(since, began), min(until, done)
            if one.ran_ns(since, until) >= SLACK_NS:
                yield Vain(since, until, one.wait, silent_ns=done - began)


def _overtaken(one: Waiting, asleep: Sequence[Span]) -> Iterator[Vain]:
    """The times from an expiry of the key, beside which the client slept on, to the grant of an acquire that began
    later. A client that a fault kept from looking, just then, did not sleep."""
    if not asleep:
        return
    calm = one.calm_times([])
    granted = one.run.calls("acquire", "ok", one.wait.key).sort_values("complete_ns", kind="stable")
    for began, done in asleep:
        for since, _ in one.free_times(began, done):
            if not any(from_ns <= since < to_ns for from_ns, to_ns in calm):
                continue
            later = where(granted, granted["complete_ns"] >= since).head(1)
            for invoked, got in rows_of(later, "invoke_ns", "complete_ns"):
                if invoked > since and got < done and one.was_freed_by("expired", since):
                    yield Vain(since, got, one.wait, silent_ns=done - began)


def _blocked(one: Waiting) -> Iterator[Span]:
    """When the client was silent for a lease, blocked by a request with a longer limit than any waiter needs."""
    for since_ns, until_ns in one.silences(round(one.run.lease_ms * 1e6) + SLACK_NS, BLOCK_ON_LISTS):
        if one.client.blocked_until_ns(since_ns) - since_ns > patience_ns(one.run):
            yield since_ns, until_ns


def _is_past_the_end(one: Waiting, at_ns: int, every: Sequence[Waiting]) -> bool:
    """Whether the key had expired, and each client that waited for it then would wake up only a second later, or
    more."""
    freed = one.last_freed(at_ns)
    if freed is None or freed["what"] != "expired":
        return False
    rivals = (its for its in every if its.wait.key == one.wait.key and its.wait.since_ns <= at_ns < its.wait.until_ns)
    return min(its.client.blocked_until_ns(at_ns) for its in rivals) > int(freed["at_ns"]) + SECOND_NS


class _Sleep(NamedTuple):
    """`push`: the row of one that woke no client. `is_late`: the client subscribed when the release was over."""

    since_ns: int
    until_ns: int
    push: int | None = None
    is_late: bool = False


def _slept_through(one: Waiting, calm: Sequence[Span], told: Sequence[_Sleep]) -> Iterator[Vain]:
    """The sleeps after a message that should have woken the client, or beside a push that woke none."""
    for from_ns, until_ns, row, is_late in told:
        if until_ns - from_ns < short_ns(one.run):
            continue
        for began, done in calm:
            since, until = max(began, from_ns), min(until_ns, done)
            if since - from_ns <= _SOON_NS and until > since and one.ran_ns(since, until) >= SLACK_NS:
                slept = Vain(since, until, one.wait)
                if row is not None:
                    yield replace(slept, push=one.ledger.change(row))
                elif is_late:
                    yield replace(slept, subscribed_ns=from_ns)
                else:
                    yield replace(slept, told_ns=from_ns)


def _unwoken(one: Waiting, pushes: LostPushes) -> Iterator[_Sleep]:
    for began, done in one.silences(short_ns(one.run), BLOCK_ON_LISTS) if pushes.of_list else ():
        yield from (_Sleep(at_ns, done, row) for at_ns, row in pushes.missed(one.client, began, done))


@dataclass(frozen=True)
class _Releases:
    """The messages that reached clients, by process; and by key, when a request had deleted it, in order. None if the
    lock keeps anything else on its nodes."""

    told: Mapping[str, Sequence[Message]]
    deleted_ns: Mapping[str, Ints]

    @classmethod
    def of(cls, every: Sequence[Waiting], ledger: Ledger, subscriptions: Subscriptions) -> Self:
        told = grouped((message.client, message) for message in subscriptions.messages)
        rows, deleted_ns, names = ledger.rows, dict[str, Ints](), {one.wait.key: one.names for one in every}
        if subscriptions.of and {str(name) for name in rows["key"].unique()} <= set[str]().union(*names.values()):
            for key, own in names.items():
                deleted_ns[key] = np.sort(where(rows, what="deleted", key=own)["at_ns"].to_numpy(np.int64))
        return cls(told, deleted_ns)

    def heard(self, one: Waiting) -> list[_Sleep]:
        """The silences in a wait that began with a message that the key had been deleted."""
        wait, deleted_ns = one.wait, self.deleted_ns.get(one.wait.key, np.zeros(0))
        own = self.told.get(process_of(wait.client), ())
        times = {each.told_ns for each in own if wait.key in each.text and wait.since_ns < each.told_ns < wait.until_ns}
        times = {at for at in times if len(deleted_ns) and np.abs(deleted_ns - at).min() <= SLACK_NS}
        silent = one.silences(short_ns(one.run)) if times else ()
        return [_Sleep(began, done) for began, done in silent if began in times]

    def missed(self, one: Waiting) -> list[_Sleep]:
        """The silences in a wait that began with a subscription, if the key had been deleted since the client looked
        last. It has one user."""
        deleted_ns = self.deleted_ns.get(one.wait.key, np.zeros(0))
        if not len(deleted_ns) or one.run.config.users_per_client > 1:
            return []
        found, listens = [], where(one.client.requests, command=LISTEN)
        for began, done in one.silences(short_ns(one.run), LISTEN):
            looked_ns = one.client.last_look_ns(one.wait.since_ns, began)
            listened_ns = where(listens, to_client_ns=began)["to_node_ns"].max()
            if looked_ns and np.any((deleted_ns > looked_ns) & (deleted_ns <= listened_ns)):
                found.append(_Sleep(began, done, is_late=True))
        return found
