"""Did the lock leave keys on nodes that it could have freed?

A release deletes the key on every node; an attempt that is refused deletes it where it was granted. A key that
stays is one node less for all clients until it expires, even while a majority of the others is free.

A release that says that the lock was no longer held must know that. It cannot if the key was there all the while on a
majority of the nodes, before the lease was over, and the release asked none of them, or had errors for answers. It is
another matter if no answer came, or if the lock had told its client before that the lease was lost. Nor may a release
ask no node for anything while the lease is valid.

A key that the lock hands to the same client again (`harness.history.handed_on`) stayed until then, and no longer.

Only what nothing can have been in the way of is looked at: no fault can have hit the node, its link or the client, the
client always had a processor, and the node was in sight. What is under way has `SLACK_MS` to arrive, so what went wrong
longer than that before a release is no excuse for it. And a lock is blamed only for a habit, for a single request may
be overtaken by an earlier one on a busy machine: on some nodes, or of releases that leave several nodes at once. Where
no request was sent, none was overtaken, so it need not happen often. This costs time and no safety.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np

from fencepost.history import FaultEvent
from fencepost.quorum import quorum
from fencepost.text import count, listed, milliseconds, plural, printable
from harness.explain.another_key import Use, another_key
from harness.explain.causes import Cause
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.fault_windows import FOREVER_NS, hits_link, longest_windows
from harness.history.groups import rows_of
from harness.history.handed_on import HandedOn
from harness.history.held_keys import HeldKey
from harness.history.key_owners import Owners
from harness.history.recorded import Recorded
from harness.history.undone_attempts import attempts_never_undone, was_not_undone
from harness.verdict import Answer, Finding, worst_first

SLACK_MS: Final = 250
_SLACK_NS: Final = SLACK_MS * 1_000_000
_WHILE_INSIDE: Final = ("extend", "held")
LEAST: Final = 3
LEAST_SHARE: Final = 0.1
"""A habit on some nodes: so many keys stayed there, and this share of the keys that were looked at."""
LEAST_AT_ONCE: Final = 2
"""A habit of releases: so many left their keys on as many nodes at once, or more. Chance leaves one node at a time."""

After = Literal["release", "release unsent", "release denied", "attempt", "attempt not undone"]
_NOT_IN_THE_WAY: Final = "no fault was in the way of deleting them"
_WORDS: Final[dict[After, tuple[str, str]]] = {
    "release": ("after the calls that should have released them", _NOT_IN_THE_WAY),
    "release unsent": ("after releases that had asked no node for anything", _NOT_IN_THE_WAY),
    "release denied": ("after releases that said that the lock was not held", "no node had said so"),
    "attempt": ("after the attempts that had set them were refused", _NOT_IN_THE_WAY),
    "attempt not undone": (
        "after the attempts that had set them were refused",
        "the lock never asked the node to delete them",
    ),
}


class Figures(KeyFigures, frozen=True):
    """Keys on single nodes that nothing kept the lock from deleting: after releases, however they ended, and after
    refused attempts. `left_…`: how many of them stayed. `not_undone`: keys of refused attempts that the lock never
    asked a node to delete, whatever was in its way. `denied`: keys whose release said that the lock was not held, which
    no node had said. `unsent`: how many of those that stayed after releases were left by one that asked no node for
    anything while the lease was valid."""

    after_releases: int
    left_by_releases: int
    after_attempts: int
    left_by_attempts: int
    not_undone: int = 0
    denied: int = 0
    unsent: int = 0

    def rows(self) -> Iterator[Row]:
        if self.not_undone:
            yield Row("left", f"{plural(self.not_undone, 'key')} of refused attempts that were never undone", order=84)
        if self.denied:
            text = f"{plural(self.denied, 'key')} that releases called lost, though no node had said so"
            yield Row("left", text, order=84)
        if self.left_by_releases or self.left_by_attempts:
            left = f"{count(self.left_by_releases)} of {count(self.after_releases)} after releases"
            tried = f"{count(self.left_by_attempts)} of {count(self.after_attempts)} after refused attempts"
            yield Row("left", f"keys that stayed on healthy nodes: {left}, {tried}", order=84)


class _Key(NamedTuple):
    """A key on a node whose owner was done with it at `done_ns`. It was there until `until_ns`. `client`: None for that
    of an attempt. `asked_ns`: when the release was asked for, `outcome`: how it ended. `event`: the
    witness's, by which the key of an attempt was set."""

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
        return self.until_ns > self.done_ns + _SLACK_NS


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the lock does not show what it sets."""
    owners = run.owners
    if owners is None or not owners.are_shown:
        return Answer()
    handed_on = HandedOn(run, owners)
    keys = _after_releases(run, owners, handed_on) | _after_attempts(run, owners, handed_on)
    left = {after: [key for key in some if key.stayed] for after, some in keys.items()}
    left["release denied"] = list(_denied(run, left["release denied"]))
    left["release unsent"] = [key for key in left["release unsent"] if _asked_nothing(run, key)]
    of_releases, of_attempts = (len(keys[after]) for after in ("release", "attempt"))
    by_releases, unsent, denied, by_attempts, not_undone = (len(left[after]) for after in _WORDS)
    figures = Figures(of_releases, by_releases, of_attempts, by_attempts, not_undone, denied, unsent)
    found = {after: list(_habit(run, after, keys[after], left[after])) for after in keys}
    if found["release"]:
        found["release unsent"] = []  # the same keys
    return Answer(figures, tuple(one for some in found.values() for one in some))


def _after_releases(run: Recorded, owners: Owners, handed_on: HandedOn) -> dict[After, list[_Key]]:
    # A release that fails, or raises, because one node is silent must still have freed the others.
    ops = run.calls("release")
    columns = ("client", "life", "section", "complete_ns", "outcome")
    done = {tuple(of): (at, str(outcome)) for *of, at, outcome in rows_of(ops, *columns)}
    of_section = ("client", "life", "section", "deadline_min_ns", "asked_ns", "start_ns", "end_ns")
    sections = list(rows_of(run.sections, *of_section))
    health, misled = _Health(run), run.wrong_clocks.mislead
    is_lost = run.ops["f"].isin(("extend", "held")) & (run.ops["outcome"] == "fail")
    told_lost = set(rows_of(run.ops[is_lost.to_numpy(bool)], "client", "life", "section"))
    f = run.ledger.calls.f if run.ledger is not None else ()
    found: dict[After, list[_Key]] = {"release": [], "release unsent": [], "release denied": []}
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
            key = _Key(
                *(row.node, row.lock_key, client, done_ns, until_ns, left_ns, outcome, row.value),
                use=use,
                replaced=before,
            )
            is_valid = done_ns < deadline_ns and tuple(of) not in told_lost and not misled(client, start_ns, done_ns)
            if health.can_reach(client, row.node, left_ns - _SLACK_NS, done_ns + _SLACK_NS):
                found["release"].append(key)
                if is_valid:
                    found["release unsent"].append(key)
            elif outcome == "fail" and is_valid:
                found["release denied"].append(key)
    return found


def _asked_nothing(run: Recorded, key: _Key) -> bool:
    """Whether the release certainly sent no request to any node."""
    if (ledger := run.whole_ledger) is None:
        return False
    return not any(ledger.sent.between(str(key.client), node, key.asked_ns, key.done_ns) for node in run.nodes)


def _denied(run: Recorded, left: list[_Key]) -> Iterator[_Key]:
    """The keys of releases whose clients had no answer about them, from a majority of the nodes."""
    assert run.ledger is not None, "else there would be no owners"
    untold: defaultdict[tuple[str | None, int], list[_Key]] = defaultdict(list)
    for key in left:
        sent = run.ledger.sent
        asked = sent.between(str(key.client), key.node, key.asked_ns, key.done_ns)
        about = (one for one in asked if key.value in one.arguments or any(key.key in name for name in one.keys))
        if all(sent.error_of(one) is not None for one in about):
            untold[key.client, key.done_ns].append(key)
    for keys in untold.values():
        if len({key.node for key in keys}) >= quorum(len(run.nodes)):
            yield from keys


def _after_attempts(run: Recorded, owners: Owners, handed_on: HandedOn) -> dict[After, list[_Key]]:
    """Keys that acquires set for no section. What a release sets is a mark, say."""
    assert run.ledger is not None, "else there would be no owners"
    f = run.ledger.calls.f
    health, never_undone = _Health(run), {change["event"] for change in attempts_never_undone(run, run.ledger)}
    found: dict[After, list[_Key]] = {"attempt": [], "attempt not undone": []}
    for row in _holdings(owners):
        is_undone, done_ns = row.event not in never_undone, row.done_ns
        is_known = row.from_max_ns <= done_ns and _is_known(row, done_ns)  # it was set when that was under way
        if row.section >= 0 or row.is_gone or (is_undone and not is_known) or f[row.call] == "release":
            continue
        if next(handed_on.uses(row)).until_ns < FOREVER_NS:
            continue  # A later call of the same client found it.
        # What a fault has held up arrives after it, in any order.
        if not is_undone or health.can_reach(row.task, row.node, row.from_min_ns - _SLACK_NS, done_ns + _SLACK_NS):
            done_ns = max(done_ns, row.from_max_ns)
            key = _Key(row.node, row.lock_key, None, done_ns, row.until_ns, event=row.event)
            found["attempt" if is_undone else "attempt not undone"].append(key)
    return found


def _is_known(held: HeldKey, done_ns: int) -> bool:
    """Whether it is known if it was deleted in time."""
    return held.ended == "deleted" or held.until_ns > done_ns + _SLACK_NS


def _holdings(owners: Owners) -> Iterator[HeldKey]:
    return (row for row in owners.each if row.began == "set" and row.value is not None)


class _Health:
    """When nothing was in the way of a client's requests, as far as is known."""

    def __init__(self, run: Recorded) -> None:
        self._faults = longest_windows(run.faults)
        self._waits = run.kept_waiting
        # Like a client that ends, a call that is cancelled need not have sent what frees its key.
        self._ended = [(end.client, end.at_ns, end.at_ns) for end in run.ends]
        self._ended += [(call.client, call.since_ns, call.at_ns) for call in run.cancelled]

    def can_reach(self, client: str | None, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether everything that the client, or any client if it is not known, sent to the node in this time must
        have arrived."""
        mine = [client] if client is not None else list(self._waits)
        return not (
            any(
                _stops(event, client, node)
                for event, since, until in self._faults
                if since <= to_ns and until >= from_ns
            )
            or any(since <= to_ns and until >= from_ns for who in mine for since, until in self._waits.get(who, ()))
            or any(client in (None, who) and since <= to_ns and until >= from_ns for who, since, until in self._ended)
        )


def _stops(event: FaultEvent, client: str | None, node: str) -> bool:
    stopped = event.halted_clients
    return hits_link(event, client, node) or (client in stopped if client is not None else bool(stopped))


def _habit(run: Recorded, after: After, keys: list[_Key], left: list[_Key]) -> Iterator[Finding]:
    share = 0.0 if after == "release unsent" else LEAST_SHARE
    nodes = _of_habit(Counter(key.node for key in left), Counter(key.node for key in keys), share) | _at_once(left)
    if not nodes:
        return
    left = [key for key in left if key.node in nodes]
    there = sum(key.node in nodes for key in keys)
    longest = max(left, key=lambda key: key.until_ns - key.done_ns)
    when, why = _WORDS[after]
    text = (
        f"{count(len(left))} of {count(there)} keys on {listed(sorted(nodes))} stayed there {when}, for up to "
        f"{milliseconds((longest.until_ns - longest.done_ns) / 1e6)}; {why}"
    )
    examples = [
        {
            "after": after,
            "node": key.node,
            "key": key.key,
            **(_attempt(run, after, key) if key.client is None else _release(run, key)),
            "at_ms": run.at_ms(key.done_ns),
            "for_ms": (key.until_ns - key.done_ns) / 1e6,
        }
        for key in worst_first(left, longest)
    ]
    at_ms = run.at_ms(min(key.done_ns for key in left))
    yield LEFT_BEHIND.found("lock", text, len(left), examples, at_ms)


def _attempt(run: Recorded, after: After, key: _Key) -> dict[str, object]:
    """Whether no request asked the node to delete the key of a refused attempt, if that is known."""
    ledger = run.ledger
    assert ledger is not None, "else there would be no owners"
    rows = np.flatnonzero((ledger.rows["event"] == key.event).to_numpy(bool))
    if after == "attempt not undone" or len(rows) != 1:
        return {}
    change = ledger.change(int(rows[0]))
    is_known = change["request"] >= 0 and change["by"] == "client"
    return {"never_undone": True} if is_known and was_not_undone(ledger.sent, change, key.until_ns) else {}


def _release(run: Recorded, key: _Key) -> dict[str, object]:
    """How the release ended that left the key, what it asked the node last, and what the node replied; or whether it
    asked other nodes alone."""
    client, ledger = str(key.client), run.ledger
    assert ledger is not None, "else there would be no owners"
    sent = {node: ledger.sent.between(client, node, key.asked_ns, key.done_ns) for node in run.nodes}
    asked: dict[str, object] = {"asked_others": True} if any(sent.values()) else {}
    if own := sent[key.node]:
        asked = {"asked": own[-1].command, "reply": own[-1].reply or ""}
    if any(value in one.arguments for one in own for value in key.replaced) and not any(
        key.value in one.arguments for one in own
    ):
        asked["old_value"] = True
    other = None if key.use is None else another_key(run, key.use)
    named = {} if other is None else {"another_key": other.in_words()}
    return {"by": client, "outcome": key.outcome, **asked, **named}


def _at_once(left: list[_Key]) -> frozenset[str]:
    """The nodes of the releases that left their keys on several of them, if there were several such releases."""
    nodes: defaultdict[tuple[str | None, int], set[str]] = defaultdict(set)
    for key in left:
        if key.client is not None:
            nodes[key.client, key.done_ns].add(key.node)
    several = [of_release for of_release in nodes.values() if len(of_release) >= LEAST_AT_ONCE]
    return frozenset[str]().union(*several) if len(several) >= LEAST_AT_ONCE else frozenset()


def _of_habit(left: Counter[str], there: Counter[str], share: float) -> frozenset[str]:
    """As many nodes as possible on which it is a habit; those first on which the largest share of the keys stayed."""
    nodes = sorted(left, key=lambda node: (left[node] / there[node], node))
    while nodes:
        some = sum(left[node] for node in nodes)
        if some >= LEAST and some >= share * sum(there[node] for node in nodes):
            break
        nodes = nodes[1:]
    return frozenset(nodes)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    where = f"{case.text('node')} kept its key of {case.text('key')} for another {case.lasting()} after "
    if "by" not in example:
        done = f"the attempt that had set it was refused, at {case.at()}"
        if example["after"] == "attempt" and "never_undone" not in example:
            return Told(f"{where}{done}, {_ALTHOUGH}.")
        return Told(f"{where}{done}, and the lock never asked for its deletion.", cause="not undone")
    said, cause = _SAID[str(example["outcome"])]
    although = _ALTHOUGH if example["after"] == "release" else "although no node had said so"
    told = f"{where}{case.text('by')}'s release {said}, at {case.at()}, {although}."
    if "another_key" in example:
        told, cause = f"{told[:-1]}: {example['another_key']}.", "another key"
    if "old_value" in example:
        return Told(f"{told} It named the value that the key had before a renewal replaced it.", cause="old value")
    if "asked_others" in example:
        # By what these answered, the lock may not have been held.
        cause = None if cause == "denied" else cause
        return Told(f"{told} The release asked other nodes, and this one for nothing.", cause=cause)
    if "asked" not in example:
        return Told(f"{told} The release asked the node for nothing.", cause=cause or "unsent release")
    reply = printable(str(example["reply"])[:_LONGEST])
    answered = f", and the node answered {reply}" if reply else ", which had no answer"
    return Told(f"{told} The last that it had asked the node was {case.text('asked')}{answered}.", cause=cause)


_ALTHOUGH: Final = "although no fault was in the way of deleting it"
_LONGEST: Final = 60
_SAID: Final[dict[str, tuple[str, Cause | None]]] = {
    "ok": ("had succeeded", None),
    "fail": ("had said that the lock was not held", "denied"),
    "info": ("had failed", None),
}
LEFT_BEHIND: Final = FindingKind(
    "keys-left-behind",
    "liveness",
    _told,
    stands_for="stuck keys",
    comes_of=("stayed", "another key", "old value", "unsent release", "set again"),
    noun="key(s) left behind",
    surveyed="orphans",
)
