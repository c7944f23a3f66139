"""Did a release report success and leave the lock taken?

A release deletes the key on every node that it reaches, so a key may stay on a node that was cut off or down. But if
the lock says that it was released, and the section's value certainly stays, or is set anew, on so many healthy nodes
that no majority is free, then no client can acquire the lock until the keys expire: the release did nothing, it went to
the wrong place, or a SET that it had overtaken came after it.

A node counts only if no fault can have hit it, or its link to the client, from `SLACK_MS` before the release was asked
for until `SLACK_MS` after its answer, or after the value came to the node if that was later: what was under way had
arrived by then. Or else the record must show that the node carried out what the release asked for the key, and kept the
value that the same section had set; but a lock may count how often a client holds it, so no call may have failed that
acquired it once more, or undid that. And it must have held the value for longer than `SLACK_MS` after the answer, and
before the lock handed it to the same client again (`harness.history.handed_on`); and for as long after another process
had asked the node for the lock, or else it kept no client out. This costs time and no safety.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from fencepost.quorum import quorum
from fencepost.text import milliseconds, out_of, plural
from harness.checkers.acquire_timeouts import SLACK_MS
from harness.explain.another_key import Use, another_key
from harness.explain.causes import Cause
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.figures import KeyFigures, Row
from harness.history.commands import COUNT
from harness.history.fault_windows import FOREVER_NS, hits_link
from harness.history.groups import rows_of, rows_of_sections, where
from harness.history.handed_on import HandedOn
from harness.history.node_requests import Request
from harness.history.quorum_support import Backing
from harness.history.recorded import Recorded, named
from harness.history.stretches import Stretch, longest, longest_ms
from harness.history.waits import first_missed_ns
from harness.verdict import Answer

_SLACK_NS: Final = SLACK_MS * 1_000_000


class Figures(KeyFigures, frozen=True):
    """`releases`: successful ones, of sections whose keys are known. `ineffective`: how many of them left no majority
    free; `longest_ms`: for how long at most, 0 without any."""

    releases: int
    ineffective: int
    longest_ms: float

    def rows(self) -> Iterator[Row]:
        if self.ineffective:
            releases = out_of(self.ineffective, self.releases, "release", "releases")
            text = f"{releases} left the keys on so many nodes that no client could acquire the lock, for up to"
            yield Row("released", f"{text} {milliseconds(self.longest_ms)}", order=83)


@dataclass(frozen=True, slots=True)
class _Ineffective(Stretch):
    """From when the yes came until a majority was free. `section`: its place. `set_again`: whether on some of the nodes
    the value was certainly set after the release was asked for. `use`: of one of these keys."""

    section: int
    nodes: tuple[str, ...]
    set_again: bool
    use: Use


class _Stay(NamedTuple):
    """Of a value on a node. `since_ns`: it was set after that, and before `set_ns`. `settled_ns`: what was under way
    had arrived by then. `is_counted`: it may be held more than once."""

    key: str
    value: str
    since_ns: int
    set_ns: int
    settled_ns: int
    until_ns: int
    is_counted: bool


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    backing = run.backing
    if backing is None:
        return Answer()
    released = _released(run, backing)
    found = list(_ineffective(run, backing, released))
    figures = Figures(len(released), len(found), longest_ms(found) or 0.0)
    if not found:
        return Answer(figures)
    text = (
        f"{len(found)} of {plural(len(released), 'release')} left the keys on so many healthy nodes that no client "
        f"could acquire the lock, for up to {milliseconds(figures.longest_ms)}, although the lock reported success"
    )
    at_ms = run.at_ms(min(one.since_ns for one in found))
    return Answer(figures, (INEFFECTIVE.of(found, text, partial(_example, run), longest(found), at_ms=at_ms),))


def _released(run: Recorded, backing: Backing) -> dict[int, int]:
    """When the release of each section whose keys are known was answered with yes."""
    ops = run.calls("release", "ok")
    done = rows_of_sections(run.sections, ops, "complete_ns")
    return {section: at_ns for section, at_ns in done if section in backing.owners.values}


def _ineffective(run: Recorded, backing: Backing, released: dict[int, int]) -> Iterator[_Ineffective]:
    staying: defaultdict[int, dict[str, _Stay]] = defaultdict(dict)
    uses: dict[int, Use] = {}
    nested = where(run.ops, run.ops["outcome"] != "ok", f=("reenter", "leave"))
    counted = {section for section, _ in rows_of_sections(run.sections, nested, "complete_ns")}
    handed_on = HandedOn(run, backing.owners)
    clients, left_ns = run.sections["client"].astype(str).tolist(), run.sections["end_ns"].tolist()
    asked_ns, start_ns = run.sections["asked_ns"].tolist(), run.sections["start_ns"].tolist()
    assert run.ledger is not None, "else there would be no owners"
    sent_ns = dict(rows_of(run.ledger.rows, "event", "from_client_ns"))
    for held in backing.owners.each:
        for section, taken_ns in handed_on.uses(held):
            until_ns = min(held.until_ns, taken_ns)
            if section not in released or until_ns - (from_ns := max(held.from_max_ns, released[section])) <= _SLACK_NS:
                continue
            missed_ns = first_missed_ns(run, clients[section], held.node, held.lock_key, held.key, from_ns, until_ns)
            if until_ns - missed_ns > _SLACK_NS:
                staying[section][held.node] = _Stay(
                    *(held.key, str(held.value), max(held.from_min_ns, sent_ns.get(held.event, 0)), held.from_max_ns),
                    *(from_ns + _SLACK_NS, until_ns),
                    is_counted=held.section != section or section in counted,
                )
                uses[section] = Use(
                    *(clients[section], held.lock_key, held.key, str(held.value)),
                    *(asked_ns[section], start_ns[section], left_ns[section], released[section]),
                )
    for section in sorted(staying):
        healthy = {
            node: stay
            for node, stay in staying[section].items()
            if not _disturbed(run, clients[section], node, left_ns[section] - _SLACK_NS, stay.settled_ns)
            or _was_carried_out(run, clients[section], node, stay, left_ns[section], released[section])
        }
        used = len(backing.nodes(section))
        if used - len(healthy) >= quorum(used):
            continue
        # As soon as one more node is free, there may be a majority.
        needed = used - used // 2
        until_ns = sorted((stay.until_ns for stay in healthy.values()), reverse=True)[needed - 1]
        again = any(stay.since_ns > left_ns[section] for stay in healthy.values())
        yield _Ineffective(released[section], until_ns, section, tuple(sorted(healthy)), again, uses[section])


def _disturbed(run: Recorded, client: str, node: str, from_ns: int, to_ns: int) -> bool:
    """Whether a fault can have hit the node, its link to the client, or the client in this time."""
    faults = run.faults_within(from_ns, to_ns)
    return any(hits_link(event, client, node) or client in event.halted_clients for event in faults)


def _was_carried_out(run: Recorded, client: str, node: str, stay: _Stay, left_ns: int, done_ns: int) -> bool:
    """Whether the node answered what the release asked it about this value, which it already held, once."""
    if stay.is_counted:
        return False
    assert run.ledger is not None, "else there would be no owners"
    sent = run.ledger.sent
    asked = (
        one
        for one in sent.between(client, node, left_ns, done_ns)
        if stay.key in one.keys and stay.value in one.arguments
    )
    answered = [
        one.from_client_ns > stay.set_ns and (one.from_node_ns or FOREVER_NS) <= done_ns and not sent.error_of(one)
        for one in asked
    ]
    return bool(answered) and all(answered)


def _is_unsent(run: Recorded, one: _Ineffective) -> bool:
    """Whether the client, whose acquire had asked these nodes for the key, sent them no request about it in its
    release, nor about its value before the key came free."""
    if (ledger := run.whole_ledger) is None or one.set_again:
        return False
    use, between = one.use, ledger.sent.between
    for node in one.nodes:
        acquiring = between(use.client, node, use.asked_ns, use.start_ns)
        releasing = between(use.client, node, use.left_ns, use.done_ns)
        later = between(use.client, node, use.done_ns, one.until_ns)
        if (
            not any(use.name in each.keys and use.value in each.arguments for each in acquiring)
            or any(use.name in {*each.keys, *each.arguments} or _has_its_value(use, each) for each in releasing)
            or any(_has_its_value(use, each) for each in later)
        ):
            return False
    return True


def _has_its_value(use: Use, request: Request) -> bool:
    """With this key, or without any: some locks use one value for all of their keys."""
    return use.value in request.arguments and (use.name in request.keys or not request.keys)


def _counted_twice(run: Recorded, one: _Ineffective) -> str:
    """The command of which one acquire sent a node two requests or more that each raised the count there, if the
    release lowered it less often; empty if that is not on record."""
    if (ledger := run.whole_ledger) is None or one.set_again:
        return ""
    client, life, section = run.sections.iloc[one.section][["client", "life", "section"]]
    its = {"task": client, "life": life, "section": section, "is_in_call": True}
    counts = where(ledger.rows, **its, node=one.nodes, did=_COUNTS)
    raised = where(counts, f="acquire", outcome="ok")
    lowered = where(counts, f="release")["node"].value_counts()
    requests = raised.groupby(["node", "command"], observed=True)["request"].nunique().reset_index()
    for node, command, times in rows_of(requests, "node", "command", "request"):
        if times > max(1, int(lowered.get(node, 0))):
            return str(command)
    return ""


def _example(run: Recorded, one: _Ineffective) -> dict[str, object]:
    section, other = run.sections.iloc[one.section], None if one.set_again else another_key(run, one.use)
    return {
        **named(section),
        **run.lasted(one),
        "nodes": one.nodes,
        "set_again": one.set_again,
        **({} if other is None else {"another_key": other.in_words()}),
        **({"is_unsent": True} if other is None and _is_unsent(run, one) else {}),
        **({"counted": counted} if other is None and (counted := _counted_twice(run, one)) else {}),
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    how = "was set again" if example["set_again"] else "stayed"
    cause: Cause = "set again" if example["set_again"] else "another key" if "another_key" in example else "stayed"
    why = f": {example['another_key']}" if "another_key" in example else ""
    if "is_unsent" in example:
        cause, why = "unsent release", f"; the release sent {case.listed('nodes')} no request"
    elif "counted" in example:
        cause = "counted twice"
        sent = f"its acquire had sent {case.text('counted')} more than once"
        why = f": {sent}; each request was counted, and the release took back fewer"
    return Told(
        f"The lock told {example['client']} at {case.at()} that it was released, but its value {how} on "
        f"{case.listed('nodes')}, so that no majority was free for another {case.lasting()}{why}.",
        cause=cause,
    )


_COUNTS: Final = (*COUNT, "HINCRBY")
INEFFECTIVE: Final = FindingKind(
    "release-without-effect",
    "liveness",
    _told,
    stands_for="stayed",
    comes_of=("stuck keys", "renewed unheld"),
    noun="release(s) without effect",
    surveyed="orphans",
)
