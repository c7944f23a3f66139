"""Did a request of the lock set or prolong a key that its client had given up?

When a release has returned, or an acquire was refused, the client is done with the key. A request that leaves the
client after that may free it; one that sets the key, or prolongs it, keeps the lock from being free: a watchdog that
was not stopped, or a client library that sends again what had failed (from the queue in which it waited for a
connection). No fault can do that. What was merely late on its way is another matter: a SET that arrives behind its own
release is a known limit of every lock, and not held against it.

The ledger says which call had set the value. Nothing is said of values that several calls set, of hashes and lists that
changed meanwhile, of leases that a process hands from one of its sections to the next, and of semaphores. And a request
counts only if it certainly left its client after the end (`harness.history.sent_after`), and in no call; or beside one,
over a connection on which that call asked for nothing, if such a request had been answered before: what was under way
when the release returned may have left with the next call. What a refused acquire set counts only if it stayed until it
expired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from fencepost.history import process_of
from fencepost.text import listed, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.calls import GRANTS
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where, which
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded
from harness.history.sent_after import SLACK_NS, SentAfter
from harness.verdict import Answer, Finding

After = Literal["release", "refusal"]
_KEEPS: Final = ("set", "overwritten", "prolonged")

_WORDS: Final[dict[After, str]] = {
    "release": "the release had succeeded",
    "refusal": "the acquire had been refused",
}


class Figures(KeyFigures, frozen=True):
    """How many requests set or prolonged a key on a node when its client was done with it: after a release, and after
    an acquire that was refused."""

    after_releases: int
    after_refusals: int

    def rows(self) -> Iterator[Row]:
        counts = {"releases": self.after_releases, "refused acquires": self.after_refusals}
        some = [f"{plural(number, 'key')} after {calls}" for calls, number in counts.items() if number]
        if some:
            yield Row("too late", f"requests sent too late kept {listed(some)}", order=87)


class LateRequest(msgspec.Struct, frozen=True):
    """A request of the `client` that kept its key on the `node`, by `at_ms`: its `command`, `how` it kept the key, and
    how long after the call that should have been the last it was sent."""

    how: str
    client: str
    node: str
    key: str
    at_ms: float
    sent_after_ms: float
    command: str


class _End(NamedTuple):
    """When a call ended that had been under way since then."""

    after: After
    at_ns: int
    since_ns: int


def check(run: Recorded) -> Answer:
    """No figures where it is not on record which request changed a key."""
    ledger = run.ledger
    if ledger is None or not len(ledger.rows) or not run.is_exclusive:
        return Answer()
    found: dict[After, list[LateRequest]] = {"release": [], "refusal": []}
    for after, late in _late(run, ledger):
        found[after].append(late)
    figures = Figures(len(found["release"]), len(found["refusal"]))
    return Answer(figures, tuple(_finding(after, late) for after, late in found.items() if late))


def _late(run: Recorded, ledger: Ledger) -> Iterator[tuple[After, LateRequest]]:
    rows = ledger.rows
    beside = _beside_calls(ledger)
    own = which(rows, ~rows["is_in_call"] | beside, what=_KEEPS, key=run.lock_keys)
    if not own.any():
        return
    holders, sent_after, answered = (
        _KeySetters(run, ledger, beside),
        SentAfter.of(run, ledger.wire),
        dict[tuple[str, ...], int](),
    )
    for row in np.flatnonzero(own).tolist():
        change = ledger.change(row)
        end = holders.end_of(change)
        if end is None or not sent_after.is_certain(change, end.at_ns, is_round=end.after == "release"):
            continue
        of = tuple(str(change[name]) for name in ("client", "node", "key", "value"))
        before_ns = answered.get(of, FOREVER_NS)
        if change["to_client_ns"] >= 0:
            answered[of] = min(before_ns, change["to_client_ns"])
        if beside[row] and min(before_ns, _asked_ns(ledger, change, end)) + SLACK_NS > change["from_client_ns"]:
            continue
        how, client, node, key = (str(change[name]) for name in ("what", "client", "node", "key"))
        at_ms, after_ms = run.at_ms(change["at_ns"]), (change["from_client_ns"] - end.at_ns) / 1e6
        yield end.after, LateRequest(how, client, node, key, at_ms, after_ms, change["command"] or "")


def _asked_ns(ledger: Ledger, change: Change, end: _End) -> int:
    """When the same request of a refused acquire had come to the proxy for the first time."""
    if end.after != "refusal":
        return FOREVER_NS
    client, node, at_ns = str(change["client"]), str(change["node"]), int(change["from_client_ns"])
    *before, last = ledger.sent.between(client, node, end.since_ns, at_ns)
    return next((one.from_client_ns for one in before if one.words == last.words), FOREVER_NS)


def _beside_calls(ledger: Ledger) -> Any:
    """By row of the ledger, whether the request was sent during a call that has nothing to do with it: an earlier call
    had set the value, and what this one asks the node for the key goes over other connections."""
    rows = ledger.rows
    setting = which(rows, rows["value"].notna(), rows["request"] >= 0, what=_KEEPS, is_in_call=True)
    first: dict[tuple[str, str, str], int] = {}
    beside = np.zeros(len(rows), bool)
    for change in map(ledger.change, np.flatnonzero(setting).tolist()):
        of, call = (change["client"], change["key"], change["value"]), change["call"]
        if first.setdefault(of, call) != call:
            beside[change["row"]] = ledger.is_beside_its_call(change, change["client"])
    return beside


class _KeySetters:
    """Which calls set the keys, and when their clients were done with them."""

    def __init__(self, run: Recorded, ledger: Ledger, beside: Any) -> None:
        self._ledger, self._calls = ledger, ledger.calls
        rows, calls = ledger.rows, ledger.calls
        self._of_value: defaultdict[tuple[str, str, str], set[int]] = defaultdict(set)
        self._of_owner: defaultdict[int, set[int]] = defaultdict(set)
        granting = where(rows, ~beside, rows["owner"] >= 0, f=GRANTS, is_in_call=True)
        for client, key, value, owner, call in rows_of(granting, "client", "key", "value", "owner", "call"):
            self._of_owner[owner].add(call)
            if value is not None:
                self._of_value[client, key, value].add(call)
        self._shared = set(where(rows, what="changed")["owner"].tolist())
        released = np.flatnonzero((calls.f == "release") & (calls.outcome == "ok")).tolist()
        self._released = {self._section(call): int(calls.complete_ns[call]) for call in released}
        setting = {self._section(call) for some in self._of_owner.values() for call in some}
        names = ("client", "life", "section", "key", "start_ns", "end_ns")
        self._handed = [
            (process_of(str(client)), key, start_ns, end_ns)
            for client, life, section, key, start_ns, end_ns in rows_of(run.sections, *names)
            if (client, life, section) not in setting
        ]

    def _section(self, call: int) -> tuple[str, int, int]:
        calls = self._calls
        return str(calls.client[call]), int(calls.life[call]), int(calls.section[call])

    def end_of(self, change: Any) -> _End | None:
        """When the client was done with the key that its request set or prolonged then; None if it was not, or that is
        not known."""
        owner, row = int(change["owner"]), int(change["row"])
        if owner < 0 or owner in self._shared:
            return None
        setter = change if owner == row else self._ledger.change(owner)
        if setter["client"] != change["client"]:
            return None
        value = (setter["client"], setter["key"], setter["value"])
        calls = self._of_owner.get(owner, set()) | self._of_value.get(value, set())
        if not calls and owner == row and change["f"] == "acquire" and change["outcome"] in ("fail", "info"):
            calls = {int(change["call"])}
        if len(calls) != 1:
            return None
        (call,) = calls
        outcome = self._calls.outcome[call]
        at_ns = self._released.get(self._section(call)) if outcome == "ok" else int(self._calls.complete_ns[call])
        if at_ns is None or outcome not in ("ok", "fail", "info"):
            return None
        gone = self._ledger.end_of_event(int(setter["event"]))
        until_ns = int(change["at_ns"])
        if outcome != "ok":
            if gone is None or gone["what"] != "expired":
                return None
            until_ns = int(gone["at_ns"])
        used = (change["client"], self._calls.key[call])
        if any(used == (of, key) and start <= until_ns and end >= at_ns for of, key, start, end in self._handed):
            return None
        return _End("release" if outcome == "ok" else "refusal", at_ns, int(self._calls.invoke_ns[call]))


def _finding(after: After, late: list[LateRequest]) -> Finding:
    kind = RENEWAL if after == "release" else REQUEST
    late = sorted(late, key=lambda one: one.at_ms)
    longest = max(one.sent_after_ms for one in late)
    nodes = listed(sorted({one.node for one in late}))
    text = (
        f"{plural(len(late), 'key')} on {nodes} {'was' if len(late) == 1 else 'were'} set or prolonged by requests "
        f"sent up to {longest:,.0f} ms after {_WORDS[after]}"
    )
    return kind.of(late, text, msgspec.to_builtins)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    is_release = case.finding.kind == RENEWAL.name
    done = "its lock was released" if is_release else "its acquire was refused"
    did = "prolonged" if case.example["how"] == "prolonged" else "set"
    return Told(
        f"{case.text('client')} was told that {done}, but {case.lasting('sent_after_ms')} later the lock sent "
        f"{case.text('command')} for it to {case.text('node')}, which {did} its key there by {case.at()}: the key "
        "keeps other clients out until it expires.",
        cause="renewed unheld" if did == "prolonged" else "set again" if is_release else None,
    )


RENEWAL: Final = FindingKind(
    "renewal-after-release",
    "liveness",
    _told,
    stands_for="set again",
    noun="key(s) set again after the release",
    surveyed="orphans",
)
REQUEST: Final = FindingKind(
    "request-after-refusal", "liveness", _told, noun="request(s) after the refusal", surveyed="orphans"
)
