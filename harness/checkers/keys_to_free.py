"""The keys that a lock could have deleted on its nodes: after its releases, and after its refused attempts.

A release that says that the lock was no longer held must know that. It cannot if the key was there all the while on a
majority of the nodes, before the lease was over, and the release asked none of them, or had errors for answers. It is
another matter if no answer came, or if the lock had told its client before that the lease was lost. Nor may a release
ask no node for anything while the lease is valid.

A key that the lock hands to the same client again (`harness.history.handed_on`) stayed until then, and no longer.

Only what nothing can have been in the way of is looked at: no fault can have hit the node, its link or the client, the
client and the proxy always had a processor, and the node was in sight. What is under way has `SLACK_NS` to arrive, so
what went wrong longer than that before a release is no excuse for it. A node that is asked in time may take longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

from fencepost.history import FaultEvent
from fencepost.quorum import quorum
from harness.explain.another_key import Use
from harness.history.fault_windows import FOREVER_NS, hits_link, meet
from harness.history.groups import rows_of, where
from harness.history.handed_on import HandedOn
from harness.history.held_keys import HeldKey
from harness.history.key_owners import Owners
from harness.history.recorded import Recorded
from harness.history.undone_attempts import attempts_never_undone
from harness.history.waits import SLACK_NS

After = Literal["release", "release unsent", "release denied", "attempt", "attempt not undone"]
_WHILE_INSIDE: Final = ("extend", "held")


class Key(NamedTuple):
    """A key on a node whose owner was done with it at `done_ns`. It was there until `until_ns`. `client`: None for that
    of an attempt. `asked_ns`: when the release was asked for, `outcome`: how it ended. `event`: the
    witness's, by which the key was set."""

    node: str
    key: str
    client: str | None
    done_ns: int
    until_ns: int
    asked_ns: int = 0
    outcome: str = ""
    value: str | None = None
    event: int = -1
    use: Use | None = None
    replaced: tuple[str, ...] = ()
    """What the node had held for the same section before the key got its value."""

    @property
    def stayed(self) -> bool:
        return self.until_ns > self.done_ns + SLACK_NS


def keys_to_free(run: Recorded, owners: Owners) -> dict[After, list[Key]]:
    """By what should have deleted them. The keys of `release unsent` and `release denied` had a valid lease: nothing
    was in the way of the former, and releases said of the latter that the lock was not held."""
    handed_on = HandedOn(run, owners)
    return _after_releases(run, owners, handed_on) | _after_attempts(run, owners, handed_on)


def left_keys(run: Recorded, keys: Mapping[After, Sequence[Key]]) -> dict[After, list[Key]]:
    """Those of them that stayed, and of which the lock could have known that."""
    left = {
        after: [key for key in some if key.stayed and not _was_asked_in_time(run, key)] for after, some in keys.items()
    }
    left["release denied"] = list(_denied(run, left["release denied"]))
    left["release unsent"] = [key for key in left["release unsent"] if _asked_nothing(run, key)]
    return left


def _after_releases(run: Recorded, owners: Owners, handed_on: HandedOn) -> dict[After, list[Key]]:
    # A release that fails, or raises, because one node is silent must still have freed the others.
    ops = run.calls("release")
    columns = ("client", "life", "section", "complete_ns", "outcome")
    done = {tuple(of): (at, str(outcome)) for *of, at, outcome in rows_of(ops, *columns)}
    of_section = ("client", "life", "section", "deadline_min_ns", "asked_ns", "start_ns", "end_ns")
    sections = list(rows_of(run.sections, *of_section))
    health, misled = _Health(run), run.wrong_clocks.mislead
    told_lost = set(rows_of(where(run.ops, f=_WHILE_INSIDE, outcome="fail"), "client", "life", "section"))
    f = run.ledger.calls.f if run.ledger is not None else ()
    found: dict[After, list[Key]] = {"release": [], "release unsent": [], "release denied": []}
    replaced = dict[tuple[str, int], tuple[str, ...]]()
    for row in _holdings(owners):
        before = replaced.get((row.node, row.section), ())
        if row.section >= 0:
            replaced[row.node, row.section] = (*before, str(row.value))
        for section, taken_ns in handed_on.uses(row):
            if section < 0:
                continue
            *of, deadline_ns, asked_ns, start_ns, left_ns = sections[section]
            (done_ns, outcome), client = done.get(tuple(of), (None, "")), str(of[0])
            renews = before and row.from_max_ns <= left_ns and (row.is_background or f[row.call] in _WHILE_INSIDE)
            if done_ns is None or not (row.from_max_ns <= start_ns or renews):
                continue
            if not (_is_known(row, done_ns) or taken_ns < FOREVER_NS):
                continue
            use = Use(client, row.lock_key, row.key, str(row.value), asked_ns, start_ns, left_ns, done_ns)
            until_ns = min(row.until_ns, taken_ns)
            key = Key(
                *(row.node, row.lock_key, client, done_ns, until_ns, left_ns, outcome, row.value),
                event=row.event,
                use=use,
                replaced=before,
            )
            is_valid = done_ns < deadline_ns and tuple(of) not in told_lost and not misled(client, start_ns, done_ns)
            if health.can_reach(client, row.node, left_ns - SLACK_NS, done_ns + SLACK_NS):
                found["release"].append(key)
                if is_valid:
                    found["release unsent"].append(key)
            elif outcome == "fail" and is_valid:
                found["release denied"].append(key)
    return found


def _was_asked_in_time(run: Recorded, key: Key) -> bool:
    """Whether the node was asked in time to delete the key, and did so late."""
    assert run.ledger is not None, "else there would be no owners"
    gone = run.ledger.end_of_event(key.event)
    return gone is not None and gone["by"] == "client" and 0 <= gone["from_client_ns"] <= key.done_ns + SLACK_NS


def _asked_nothing(run: Recorded, key: Key) -> bool:
    """Whether the release certainly sent no request to any node."""
    if (ledger := run.whole_ledger) is None:
        return False
    return not any(ledger.sent.between(str(key.client), node, key.asked_ns, key.done_ns) for node in run.nodes)


def _denied(run: Recorded, left: list[Key]) -> Iterator[Key]:
    """The keys of releases whose clients had no answer about them, from a majority of the nodes."""
    assert run.ledger is not None, "else there would be no owners"
    untold: defaultdict[tuple[str | None, int], list[Key]] = defaultdict(list)
    for key in left:
        sent = run.ledger.sent
        asked = sent.between(str(key.client), key.node, key.asked_ns, key.done_ns)
        about = (one for one in asked if key.value in one.arguments or any(key.key in name for name in one.keys))
        if all(sent.error_of(one) is not None for one in about):
            untold[key.client, key.done_ns].append(key)
    for keys in untold.values():
        if len({key.node for key in keys}) >= quorum(len(run.nodes)):
            yield from keys


def _after_attempts(run: Recorded, owners: Owners, handed_on: HandedOn) -> dict[After, list[Key]]:
    """Keys that acquires set for no section. What a release sets is a mark, say."""
    assert run.ledger is not None, "else there would be no owners"
    f = run.ledger.calls.f
    health, never_undone = _Health(run), {change["event"] for change in attempts_never_undone(run, run.ledger)}
    found: dict[After, list[Key]] = {"attempt": [], "attempt not undone": []}
    for row in _holdings(owners):
        is_undone, done_ns = row.event not in never_undone, row.done_ns
        is_known = row.from_max_ns <= done_ns and _is_known(row, done_ns)  # it was set when that was under way
        if row.section >= 0 or row.is_gone or (is_undone and not is_known) or f[row.call] == "release":
            continue
        if next(handed_on.uses(row)).until_ns < FOREVER_NS:
            continue  # A later call of the same client found it.
        # What a fault has held up arrives after it, in any order.
        if not is_undone or health.can_reach(row.task, row.node, row.from_min_ns - SLACK_NS, done_ns + SLACK_NS):
            done_ns = max(done_ns, row.from_max_ns)
            key = Key(row.node, row.lock_key, None, done_ns, row.until_ns, event=row.event)
            found["attempt" if is_undone else "attempt not undone"].append(key)
    return found


def _is_known(held: HeldKey, done_ns: int) -> bool:
    """Whether it is known if it was deleted in time."""
    return held.ended == "deleted" or held.until_ns > done_ns + SLACK_NS


def _holdings(owners: Owners) -> Iterator[HeldKey]:
    return (row for row in owners.each if row.began == "set" and row.value is not None)


class _Health:
    """When nothing was in the way of a client's requests, as far as is known."""

    def __init__(self, run: Recorded) -> None:
        self._faults_within = run.faults_within
        self._waits_of = cache(run.waits_of)
        self._waits = [wait for waits in run.kept_waiting.values() for wait in waits]
        # Like a client that ends, a call that is cancelled need not have sent what frees its key.
        self._ended = [(end.client, end.at_ns, end.at_ns) for end in run.ends]
        self._ended += [(call.client, call.since_ns, call.at_ns) for call in run.cancelled]

    def can_reach(self, client: str | None, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether everything that the client, or any client if it is not known, sent to the node in this time must
        have arrived."""
        waits = self._waits if client is None else self._waits_of(client)
        return not (
            any(_stops(event, client, node) for event in self._faults_within(from_ns, to_ns))
            or meet(waits, from_ns, to_ns)
            or any(client in (None, who) and since <= to_ns and until >= from_ns for who, since, until in self._ended)
        )


def _stops(event: FaultEvent, client: str | None, node: str) -> bool:
    stopped = event.halted_clients
    return hits_link(event, client, node) or (client in stopped if client is not None else bool(stopped))
