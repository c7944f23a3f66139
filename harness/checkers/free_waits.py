"""Was the lock free while a client waited for it?

A client that waits inside acquire is woken up, or looks again by itself. A wake-up may be lost, so a correct lock looks
again, at the latest when the last lease that it saw has run out: its holder may have died. Locks that block on a server
count in whole seconds. So a client has waited in vain if all of this was so for a lease, rounded up to whole seconds,
and one second more (`PATIENCE`):

- the key was free: nothing of it was there on a majority of the lock's nodes, which the witness saw, and no client was
  inside or giving it back;
- no fault was in force on these nodes, on the client and its links, or on another client that waited, whose turn it may
  have been;
- the client ran, sent nothing to any node, heard nothing, and nothing of what it had sent was on its way.

The last lease had run out by then, whatever happened before: a holder that died, a wake-up that a fault swallowed.

A client that did ask, had answers, and was not let in although all the rest was so for `TIMES` as long, has waited in
vain, too. So it has after as long as a gap without a grant takes (`harness.checkers.starvation.least_gap_ms`) if there
was an entry in the lock's state for which no client comes (`harness.history.dead_entries`): a lock may wait for another
client's turn, but no longer than a few leases for one that is gone, or whose user had cancelled the call. In the second
case, and if the call had given up, that client ran and had answers from the nodes all that time, no fault was in force
on it, and what the call may leave had been there for its TTL before: it could have taken its entry out. Attempts that
set the key and undo it take it for that time.

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
it said and heard nothing for half a lease, or half a second if that is longer, while all the rest was so, it slept on.
The lock is to blame if this happened `LEAST_OVERSLEPT` times. A lock that keeps anything else of the key on its nodes
may have told it of another client's turn, so nothing is said of that one.

So it is of a client that was blocked on a list (BLPOP, say) when a request pushed onto that list and deleted it at
once: that wakes no client (`harness.history.subscriptions`).

How long a lock lets an acquire take does not matter. This costs time and no safety, so it breaks only `liveness`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import pandas as pd

from fencepost.history import process_of
from fencepost.text import milliseconds, plural, printable
from harness.checkers.acquire_timeouts import stood_still_ns
from harness.checkers.starvation import least_gap_ms
from harness.explain.causes import Cause
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import client_of, how_sent
from harness.figures import KeyFigures, Row
from harness.history.dead_entries import DeadEntry, dead_entries
from harness.history.fault_windows import FOREVER_NS, between, longest_windows
from harness.history.free_times import free_times, names_of
from harness.history.groups import Ints, rows_of
from harness.history.key_changes import ENDINGS
from harness.history.ledger import Change, Ledger
from harness.history.link_activity import BLOCKING, BLOCKS, Activity, Links, time_limit_ns
from harness.history.recorded import Recorded
from harness.history.subscriptions import OF_THE_NODE, LostPushes, Message, Subscriptions
from harness.history.waits import Wait, all_waits, in_the_way
from harness.verdict import Answer, Finding, shown

SECOND_NS: Final = 1_000_000_000
TIMES: Final = 3
LEAST_ANSWERS: Final = 3
SLACK_MS: Final = 250
"""What is under way has this time to arrive."""
LEAST_OVERSLEPT: Final = 3
_SOON_NS: Final = 50_000_000
"""A release that tells of itself deletes the key within this time."""


class Figures(KeyFigures, frozen=True):
    """`waits`: of clients while the lock was free. `longest_ms`: of these; None without any. `patience_ms`: how long a
    client that sends nothing may wait."""

    waits: int
    longest_ms: float | None
    patience_ms: float

    def rows(self) -> Iterator[Row]:
        if self.waits:
            waits = plural(self.waits, "wait")
            text = f"{waits} of up to {milliseconds(self.longest_ms)} while the lock was free"
            yield Row("in vain", text, order=61)


class _Vain(NamedTuple):
    """A time in which a client waited beside a free lock. `answers`: how many of its requests were answered then; 0 if
    it sent none. `freed`: the change that freed the key last, if it is on record. `entry`: for which no client came,
    and which was there all the time. `silent_ns`: for how long the client had said and heard nothing in all, if that
    is why it has waited in vain. `told_ns`: when a message of the release had reached it, if that is why; or `push`,
    which deleted the list on which it was blocked, and onto which it had pushed."""

    wait: Wait
    since_ns: int
    until_ns: int
    answers: int = 0
    freed: Change | None = None
    entry: DeadEntry | None = None
    silent_ns: int = 0
    told_ns: int = 0
    push: Change | None = None

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.since_ns


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or what went over the links is not on record. Permits of a semaphore
    are several keys, and how many of them are free is up to the lock."""
    ledger = run.whole_ledger
    if ledger is None or not run.is_exclusive or run.had_no_access:
        return Answer()
    vain = sorted(_vain(run, ledger), key=lambda one: one.since_ns)
    longest = max(vain, key=lambda one: one.length_ns, default=None)
    figures = Figures(len(vain), longest and longest.length_ns / 1e6, patience_ns(run) / 1e6)
    return Answer(figures, () if longest is None else (_finding(run, ledger, vain, longest),))


def patience_ns(run: Recorded) -> int:
    """How long a client may wait beside a free lock without looking again."""
    lease_ns = round(run.lease_ms * 1e6)
    return -(-lease_ns // SECOND_NS) * SECOND_NS + SECOND_NS


def _vain(run: Recorded, ledger: Ledger) -> list[_Vain]:
    """The longest one of each wait."""
    patience, asleep_ns, links = patience_ns(run), _asleep_ns(run), ledger.links
    lease_ns = round(run.lease_ms * 1e6) + SLACK_MS * 1_000_000
    every = list(all_waits(run, links, short_ns(run)))
    waits = [wait for wait in every if wait.until_ns - wait.since_ns >= patience]
    names = {key: names_of(run, ledger, key) for key in dict.fromkeys(wait.key for wait in every)}
    subscriptions, pushes = Subscriptions.read(ledger.wire), LostPushes.of(ledger)
    dead, releases = dead_entries(run, ledger), _Releases.of(ledger, names, subscriptions)
    vain, overslept, ignored = list[_Vain](), list[_Vain](), list[_Vain]()
    for wait in every:
        client, lasted_ns = links.of(wait.client), wait.until_ns - wait.since_ns
        asleep = _asleep(run, wait, client, subscriptions)
        blocked = list(_blocked(run, wait, client, lease_ns, patience))
        told: list[_Sleep] = [(*slept, None) for slept in releases.heard(run, wait, client)]
        told = told or list(_unwoken(run, wait, client, pushes))
        if lasted_ns < patience and not asleep and not blocked and not told:
            continue
        calm = calm_times(run, wait, names[wait.key], waits)
        found = [one for since, until in calm for one in _in_vain(run, wait, links, since, until, dead[wait.key])]
        slept = [] if found else list(_overslept(run, wait, calm, asleep))
        slept += [] if found or slept else _overtaken(run, ledger, wait, names[wait.key], asleep)
        on = [] if found or slept or not (told or blocked) else calm_times(run, wait, names[wait.key], every)
        slept += _past_the_end(_overslept(run, wait, on, blocked), ledger, names[wait.key], every)
        slept_on = [] if slept else list(_slept_through(run, ledger, wait, on, told))
        if some := found or slept or slept_on:
            longest = max(some, key=lambda one: one.length_ns)
            longest = longest._replace(freed=last_freed(ledger, names[wait.key], longest.since_ns))
            (vain if found else overslept if slept else ignored).append(longest)
    if max((one.silent_ns for one in overslept), default=0) < asleep_ns:
        overslept = []
    often = [some for some in (overslept, ignored) if len(some) >= LEAST_OVERSLEPT]
    return [*vain, *(one for some in often for one in some)]


_Sleep = tuple[int, int, int | None]
"""From when, until when; and the row of a push that woke no client."""


def _asleep(run: Recorded, wait: Wait, client: Activity, subscriptions: Subscriptions) -> list[tuple[int, int]]:
    """When the client was subscribed to something, and silent for so long that it does not look again by itself."""
    least_ns = _asleep_ns(run)
    if wait.until_ns - wait.since_ns < least_ns:
        return []
    silent = silences(run, wait, client, wait.since_ns, wait.until_ns, least_ns)
    return [one for one in silent if subscriptions.last(wait.client, *one)]


def _blocked(run: Recorded, wait: Wait, client: Activity, lease_ns: int, patience: int) -> Iterator[tuple[int, int]]:
    """When the client was silent for a lease, blocked by a request with a longer limit than any waiter needs."""
    for since_ns, until_ns in silences(run, wait, client, wait.since_ns, wait.until_ns, lease_ns, BLOCKS):
        if client.blocked_until_ns(since_ns) - since_ns > patience:
            yield since_ns, until_ns


def _slept_through(
    run: Recorded, ledger: Ledger, wait: Wait, calm: Sequence[tuple[int, int]], told: Sequence[_Sleep]
) -> Iterator[_Vain]:
    """The sleeps after a message that should have woken the client, or beside a push that woke none."""
    for since_ns, until_ns, row in told:
        for one in _slept_on(run, wait, calm, since_ns, until_ns):
            yield one if row is None else one._replace(told_ns=0, push=ledger.change(row))


def _unwoken(run: Recorded, wait: Wait, client: Activity, pushes: LostPushes) -> Iterator[_Sleep]:
    if pushes.of_list:
        for began, done in silences(run, wait, client, wait.since_ns, wait.until_ns, short_ns(run), BLOCKS):
            yield from ((at_ns, done, row) for at_ns, row in pushes.missed(client, began, done))


@dataclass(frozen=True)
class _Releases:
    """The messages that reached clients, by process; and by key, when a request had deleted it, in order. None if the
    lock keeps anything else on its nodes."""

    told: Mapping[str, Sequence[Message]]
    deleted_ns: Mapping[str, Ints]

    @classmethod
    def of(cls, ledger: Ledger, names: Mapping[str, set[str]], subscriptions: Subscriptions) -> Self:
        told: defaultdict[str, list[Message]] = defaultdict(list)
        for message in subscriptions.messages:
            told[message.client].append(message)
        rows, deleted_ns = ledger.rows, dict[str, Ints]()
        if told and {str(name) for name in rows["key"].unique()} <= set[str]().union(*names.values()):
            for key, own in names.items():
                gone = (rows["what"] == "deleted") & rows["key"].isin(list(own))
                deleted_ns[key] = np.sort(rows["at_ns"][gone.to_numpy(bool)].to_numpy(np.int64))
        return cls(told, deleted_ns)

    def heard(self, run: Recorded, wait: Wait, client: Activity) -> list[tuple[int, int]]:
        """The silences in a wait that began with a message that the key had been deleted."""
        own, deleted_ns = self.told.get(process_of(wait.client), ()), self.deleted_ns.get(wait.key, np.zeros(0))
        times = {one.told_ns for one in own if wait.key in one.text and wait.since_ns < one.told_ns < wait.until_ns}
        times = {at for at in times if len(deleted_ns) and np.abs(deleted_ns - at).min() <= SLACK_MS * 1_000_000}
        silent = silences(run, wait, client, wait.since_ns, wait.until_ns, short_ns(run)) if times else ()
        return [(began, done) for began, done in silent if began in times]


def calm_times(run: Recorded, wait: Wait, names: set[str], others: list[Wait]) -> list[tuple[int, int]]:
    """When the key was free during the wait, and nothing was in the way. `names`: what it is called on the nodes."""
    free = free_times(run, names, wait.key, wait.since_ns, wait.until_ns)
    way = in_the_way(run, wait, others)
    return [stretch for since, until in free for stretch in between(way, since, until)]


def _asleep_ns(run: Recorded) -> int:
    """A client that has subscribed, and has said and heard nothing for so long, does not look again by itself."""
    return max(round(run.lease_ms * 1e6), SECOND_NS) + SLACK_MS * 1_000_000


def short_ns(run: Recorded) -> int:
    """A client that waits for a message, and is silent for so long, does not poll."""
    return max(round(run.lease_ms * 1e6) // 2, SECOND_NS // 2)


def _overslept(
    run: Recorded, wait: Wait, calm: Sequence[tuple[int, int]], asleep: Sequence[tuple[int, int]]
) -> Iterator[_Vain]:
    for began, done in asleep:
        for since, until in calm:
            since, until = max(since, began), min(until, done)
            if ran_ns(run, wait.client, since, until) >= SLACK_MS * 1_000_000:
                yield _Vain(wait, since, until, silent_ns=done - began)


def _overtaken(
    run: Recorded, ledger: Ledger, wait: Wait, names: set[str], asleep: Sequence[tuple[int, int]]
) -> Iterator[_Vain]:
    """The times from an expiry of the key, beside which the client slept on, to the grant of an acquire that began
    later. A client that a fault kept from looking, just then, did not sleep."""
    granted = run.ops[((run.ops["f"] == "acquire") & (run.ops["outcome"] == "ok")).to_numpy(bool)]
    granted = granted[(granted["key"] == wait.key).to_numpy(bool)].sort_values("complete_ns", kind="stable")
    calm = calm_times(run, wait, names, []) if asleep else []
    for began, done in asleep:
        for since, _ in free_times(run, names, wait.key, began, done):
            if not any(from_ns <= since < to_ns for from_ns, to_ns in calm):
                continue
            later = granted[(granted["complete_ns"] >= since).to_numpy(bool)].head(1)
            freed = last_freed(ledger, names, since)
            for invoked, got in rows_of(later, "invoke_ns", "complete_ns"):
                if invoked > since and got < done and freed is not None and freed["what"] == "expired":
                    yield _Vain(wait, since, got, silent_ns=done - began)


def _past_the_end(some: Iterable[_Vain], ledger: Ledger, names: set[str], waits: Sequence[Wait]) -> Iterator[_Vain]:
    """Those beside a key that had expired, if each client that waited for it would wake up only a second later, or
    more. `names`: those of the key on the nodes."""
    for one in some:
        freed = last_freed(ledger, names, one.since_ns)
        if freed is not None and freed["what"] == "expired":
            rivals = (its for its in waits if its.key == one.wait.key and its.since_ns <= one.since_ns < its.until_ns)
            until_ns = (ledger.links.of(wait.client).blocked_until_ns(one.since_ns) for wait in rivals)
            if min(until_ns) > int(freed["at_ns"]) + SECOND_NS:
                yield one


def _slept_on(
    run: Recorded, wait: Wait, calm: Sequence[tuple[int, int]], told_ns: int, until_ns: int
) -> Iterator[_Vain]:
    for began, done in calm:
        since, until = max(began, told_ns), min(until_ns, done)
        if since - told_ns <= _SOON_NS and until > since and ran_ns(run, wait.client, since, until) >= short_ns(run):
            yield _Vain(wait, since, until, told_ns=told_ns)


def _in_vain(
    run: Recorded, wait: Wait, links: Links, since_ns: int, until_ns: int, left: Sequence[DeadEntry]
) -> Iterator[_Vain]:
    """Of a time in which the key was free and nothing was in the way: the parts in which the client said nothing, or
    all of it if it did, and was answered."""
    patience, client = patience_ns(run), links.of(wait.client)
    if until_ns - since_ns < patience:
        return
    for began, done in silences(run, wait, client, since_ns, until_ns, patience):
        yield _Vain(wait, began, done)
    there = (one for one in left if one.dead_ns < until_ns <= one.until_ns)
    for entry in (*sorted(there, key=lambda one: one.put["at_ns"]), None):
        began = since_ns if entry is None else max(since_ns, entry.dead_ns)
        if entry is not None and entry.died_ns > began:
            client_of_it = str(entry.put["client"])
            if not _could_undo(run, links, client_of_it, began, until_ns):
                continue
        least = TIMES * patience if entry is None else max(patience, round(least_gap_ms(run) * 1e6))
        answers = client.answered(began, until_ns)
        if answers >= LEAST_ANSWERS and ran_ns(run, wait.client, began, until_ns) >= least:
            yield _Vain(wait, began, until_ns, answers, entry=entry)
            return


def _could_undo(run: Recorded, links: Links, client: str, since_ns: int, until_ns: int) -> bool:
    """Whether the client process was at work in this time, the nodes answered it, and no fault was in force on it."""
    for event, began, done in longest_windows(run.faults):
        if began < until_ns and done > since_ns and client in map(process_of, event.hit_clients):
            return False
    if any(process_of(end.client) == client and since_ns < end.at_ns < until_ns for end in run.ends):
        return False
    return links.of(client).answered(since_ns, until_ns) >= LEAST_ANSWERS


def silences(
    run: Recorded,
    call: Wait,
    client: Activity,
    since_ns: int,
    until_ns: int,
    least_ns: int,
    after: Sequence[str] | None = None,
) -> Iterator[tuple[int, int]]:
    """The times between the two, within a call, in which its client said nothing and heard nothing for that long,
    although it ran and had nothing on its way. `after`: what it must have sent last, if that matters."""
    moments = client.moments_ns
    inner = moments[(moments > since_ns) & (moments < until_ns)]
    edges = np.concatenate([[since_ns], inner, [until_ns]])
    for place in np.flatnonzero(np.diff(edges) >= least_ns).tolist():
        began, done = int(edges[place]), int(edges[place + 1])
        if after is not None and client.last_sent(since_ns, began) not in after:
            continue
        if ran_ns(run, call.client, began, done) >= least_ns and not client.is_stuck(call.since_ns, began):
            yield began, done


def ran_ns(run: Recorded, client: str, since_ns: int, until_ns: int) -> int:
    """For how much of this time the client was not stopped, nor starved of CPU."""
    one = pd.DataFrame({"client": [client], "invoke_ns": [since_ns], "complete_ns": [until_ns]})
    return until_ns - since_ns - int(stood_still_ns(one, run)[0])


def last_freed(ledger: Ledger, names: set[str], by_ns: int) -> Change | None:
    """The last change by then that took the key from a node."""
    rows = ledger.rows
    ends = rows["what"].isin(list(ENDINGS)) & rows["key"].isin(list(names)) & (rows["since_ns"] <= by_ns)
    places = np.flatnonzero(ends.to_numpy(bool))
    if not len(places):
        return None
    return ledger.change(int(places[rows["at_ns"].to_numpy(np.int64)[places].argmax()]))


def _finding(run: Recorded, ledger: Ledger, vain: Sequence[_Vain], longest: _Vain) -> Finding:
    clients = plural(len({one.wait.client for one in vain}), "client")
    asked = sum(one.answers > 0 for one in vain)
    how = (
        "without sending a request"
        if not asked
        else "although the nodes answered"
        if asked == len(vain)
        else "some without sending a request, some although the nodes answered"
    )
    text = (
        f"{clients} waited for up to {milliseconds(longest.length_ns / 1e6)} while the lock was free and no fault was "
        f"in the way, {how} (TTL {run.lease_ms:.0f} ms)"
    )
    examples = tuple(_example(run, ledger, one) for one in shown(vain, longest))
    return WAITS.found("lock", text, len(vain), examples)


def _example(run: Recorded, ledger: Ledger, one: _Vain) -> dict[str, object]:
    example: dict[str, object] = {
        "client": one.wait.client,
        "key": one.wait.key,
        "at_ms": run.at_ms(one.since_ns),
        "for_ms": one.length_ns / 1e6,
        "waited_since_ms": run.at_ms(one.wait.since_ns),
        "answers": one.answers,
    }
    if not one.answers and not one.told_ns and one.push is None:
        example |= _listened(run, ledger, one)
    if one.silent_ns:
        example["silent_ms"] = one.silent_ns / 1e6
    if one.told_ns:
        example["told_ms"] = run.at_ms(one.told_ns)
    if one.push is not None:
        example |= {"list": str(one.push["key"]), "pushed_ms": run.at_ms(one.push["at_ns"])}
        example |= {"pushed_by": client_of(one.push), "push": how_sent(run, one.push)}
    if one.entry is not None:
        example["entry"] = _entry(run, one.entry, one.since_ns)
    if one.freed is None:
        return example
    how, by = one.freed["what"], one.freed["task"] or one.freed["client"]
    freed = {"freed": str(how), "freed_ms": run.at_ms(one.freed["at_ns"])}
    return example | freed | ({"freed_by": str(by)} if how == "deleted" and by else {})


def _entry(run: Recorded, entry: DeadEntry, since_ns: int) -> dict[str, object]:
    found: dict[str, object] = {name: str(entry.put[name]) for name in ("client", "node", "key", "did")}
    found |= {"at_ms": run.at_ms(entry.put["at_ns"])}
    if entry.left is None or entry.died_ns <= since_ns:
        return found | {"died_ms": run.at_ms(entry.died_ns)}
    return found | {"cancelled_ms" if entry.left.how == "cancelled" else "gave_up_ms": run.at_ms(entry.left.at_ns)}


def _listened(run: Recorded, ledger: Ledger, one: _Vain) -> dict[str, object]:
    """What the client had asked last to be told of, and whether a request named that while it waited."""
    sent, client = ledger.sent, one.wait.client
    asked = [
        (request, node)
        for node in run.nodes
        for request in sent.between(client, node, one.wait.since_ns, one.since_ns)
        if request.command in BLOCKING and request.arguments
    ]
    if not asked:
        return {}
    request, node = max(asked, key=lambda some: some[0].from_client_ns)
    name = request.arguments[0]
    if name.startswith(OF_THE_NODE):
        return {}
    was_named = name in sent.words(node, one.wait.since_ns, one.until_ns, BLOCKING)
    listened = {"listened": request.command, "to": name, "on": node, "was_notified": was_named}
    limit_ns = time_limit_ns(request.command, request.arguments)
    expired = one.freed is not None and one.freed["what"] == "expired"
    return listened | ({"limit_ms": limit_ns / 1e6} if expired and limit_ns > patience_ns(run) else {})


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, client = case.example, case.text("client")
    freed = _FREED.get(str(example.get("freed")), "")
    if freed:
        by = f" by {case.text('freed_by')}" if "freed_by" in example else ""
        freed = f" ({freed}{by} at {case.at('freed_ms')})"
    did = (
        f"had {example['answers']:,} requests answered, but did not acquire the lock"
        if example["answers"]
        else f"sent and received nothing; {_LOOKS_AGAIN}"
    )
    cause: Cause = "not let in" if example["answers"] else "not woken"
    if example.get("was_notified") is False:
        command, to = case.texts("listened", "to")
        did = f"sent and received nothing: it had sent {command} {to}, and no other request named {to}"
        cause = "not notified"
    if "limit_ms" in example:
        is_endless = example["limit_ms"] * 1e6 >= FOREVER_NS
        limit = "without a time limit" if is_endless else f"with a time limit of {case.lasting('limit_ms')}"
        did = f"stayed blocked, and sent nothing: it had sent {' '.join(case.texts('listened', 'to'))} {limit}, and an "
        did += "expiry pushes nothing"
        cause = "blocked too long"
    if "told_ms" in example:
        did = f"sent and received nothing, although a message of the release had reached it at {case.at('told_ms')}"
    if "list" in example:
        did = f"stayed blocked on {case.text('list')}: {case.text('pushed_by')} had pushed onto it and deleted it with "
        did += f"one request, so it woke no client ({case.text('push')})"
        cause = "not notified"
    if "silent_ms" in example:
        did += f"; it had been silent for {case.lasting('silent_ms')}"
    if (entry := example.get("entry")) is not None:
        of, where, put, node = (printable(str(entry[name])) for name in ("client", "key", "did", "node"))
        how = next(name for name in _ENDED if name in entry)
        ended, cause = _ENDED[how]
        did += (
            f": {of} had put an entry into {where} on {node} at {float(entry['at_ms']):+,.1f} ms ({put}), {ended} "
            f"{float(entry[how]):+,.1f} ms, and no request took that entry out"
        )
    return Told(
        f"{client} was waiting for {case.text('key')}. From {case.at()} on, for {case.lasting()}, the key was free"
        f"{freed} and no fault was in the way; meanwhile {client} {did}.",
        cause=cause,
    )


_ENDED: Final[Mapping[str, tuple[str, Cause]]] = {
    "died_ms": ("was gone by", "dead entry"),
    "cancelled_ms": ("its user had cancelled that acquire by", "cancelled entry"),
    "gave_up_ms": ("its acquire had given up by", "entry of a refused call"),
}
"""By what tells when an entry was dead: how it is said, and the cause."""
_FREED: Final[Mapping[str, str]] = {"deleted": "deleted", "expired": "expired", "lost": "lost by the node"}
_LOOKS_AGAIN: Final = "a client that is not notified must retry once the last lease that it saw has expired"
WAITS: Final = FindingKind(
    "waits-for-free-lock",
    "liveness",
    _told,
    comes_of=("never given back",),
    noun="wait(s) for a free lock",
    surveyed="free",
)
