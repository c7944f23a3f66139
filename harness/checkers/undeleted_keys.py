"""Did the lock leave keys on nodes that it could have freed?

A release deletes the key on every node; an attempt that is refused deletes it where it was granted. A key that
stays is one node less for all clients until it expires, even while a majority of the others is free. Which keys count,
and which releases must have known better, is in `harness.checkers.keys_to_free`.

A lock is blamed only for a habit, for a single request may be overtaken by an earlier one on a busy machine: on some
nodes, or of releases that leave several nodes at once. Where no request was sent, none was overtaken, so it need not
happen often. This costs time and no safety.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from fencepost.text import count, listed, milliseconds, plural, printable
from harness.checkers.keys_to_free import After, Key, keys_to_free, left_keys
from harness.explain.another_key import another_key
from harness.explain.causes import Cause
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.recorded import Recorded
from harness.history.undone_attempts import was_not_undone
from harness.verdict import Answer, Finding, worst_first

LEAST: Final = 3
LEAST_SHARE: Final = 0.1
"""A habit on some nodes: so many keys stayed there, and this share of the keys that were looked at."""
LEAST_AT_ONCE: Final = 2
"""A habit of releases: so many left their keys on as many nodes at once, or more. Chance leaves one node at a time."""

_NOT_IN_THE_WAY: Final = "no fault was in the way of deleting them"
_WORDS: Final[dict[After, tuple[str, str]]] = {
    "release": ("after the calls that should have released them", _NOT_IN_THE_WAY),
    "release unsent": ("after releases that had sent no request to any node", _NOT_IN_THE_WAY),
    "release denied": ("after releases that reported the lock as not held", "no node had reported that"),
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
            text = (
                f"{plural(self.denied, 'key')} that releases reported as not held, although no node had reported that"
            )
            yield Row("left", text, order=84)
        if self.left_by_releases or self.left_by_attempts:
            left = f"{count(self.left_by_releases)} of {count(self.after_releases)} after releases"
            tried = f"{count(self.left_by_attempts)} of {count(self.after_attempts)} after refused attempts"
            yield Row("left", f"keys that stayed on healthy nodes: {left}, {tried}", order=84)


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the lock does not show what it sets."""
    owners = run.owners
    if owners is None or not owners.are_shown:
        return Answer()
    keys = keys_to_free(run, owners)
    left = left_keys(run, keys)
    of_releases, of_attempts = (len(keys[after]) for after in ("release", "attempt"))
    by_releases, unsent, denied, by_attempts, not_undone = (len(left[after]) for after in _WORDS)
    figures = Figures(of_releases, by_releases, of_attempts, by_attempts, not_undone, denied, unsent)
    found = {after: list(_habit(run, after, keys[after], left[after])) for after in keys}
    if found["release"]:
        found["release unsent"] = []  # the same keys
    return Answer(figures, tuple(one for some in found.values() for one in some))


def _habit(run: Recorded, after: After, keys: list[Key], left: list[Key]) -> Iterator[Finding]:
    share = 0.0 if after == "release unsent" else LEAST_SHARE
    nodes = _of_habit(Counter(key.node for key in left), Counter(key.node for key in keys), share) | _at_once(left)
    if not nodes:
        return
    left = [key for key in left if key.node in nodes]
    there = sum(key.node in nodes for key in keys)
    longest = max(left, key=lambda key: key.until_ns - key.done_ns)
    when, why = _WORDS[after]
    text = (
        f"{count(len(left))} of {count(there)} keys on {listed(sorted(nodes))} stayed there for up to "
        f"{milliseconds((longest.until_ns - longest.done_ns) / 1e6)} {when}; {why}"
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


def _attempt(run: Recorded, after: After, key: Key) -> dict[str, object]:
    """Whether no request asked the node to delete the key of a refused attempt, if that is known."""
    ledger = run.ledger
    assert ledger is not None, "else there would be no owners"
    row = ledger.row_of.get(key.event)
    if after == "attempt not undone" or row is None:
        return {}
    change = ledger.change(row)
    is_known = change["request"] >= 0 and change["by"] == "client"
    return {"never_undone": True} if is_known and was_not_undone(ledger.sent, change, key.until_ns) else {}


def _release(run: Recorded, key: Key) -> dict[str, object]:
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


def _at_once(left: list[Key]) -> frozenset[str]:
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
    although = _ALTHOUGH if example["after"] == "release" else "although no node had reported that"
    told = f"{where}{case.text('by')}'s release {said}, at {case.at()}, {although}."
    if "another_key" in example:
        told, cause = f"{told[:-1]}: {example['another_key']}.", "another key"
    if "old_value" in example:
        return Told(f"{told} It named the value that the key had before a renewal replaced it.", cause="old value")
    if "asked_others" in example:
        # By what these answered, the lock may not have been held.
        cause = None if cause == "denied" else cause
        return Told(f"{told} The release sent requests to other nodes, and none to this one.", cause=cause)
    if "asked" not in example:
        return Told(f"{told} The release sent the node no request.", cause=cause or "unsent release")
    reply = printable(str(example["reply"])[:_LONGEST])
    answered = f", and the node answered {reply}" if reply else ", which had no answer"
    return Told(f"{told} Its last request to the node was {case.text('asked')}{answered}.", cause=cause)


_ALTHOUGH: Final = "although no fault was in the way of deleting it"
_LONGEST: Final = 60
_SAID: Final[dict[str, tuple[str, Cause | None]]] = {
    "ok": ("had succeeded", None),
    "fail": ("had reported the lock as not held", "denied"),
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
