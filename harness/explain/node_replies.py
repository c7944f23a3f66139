"""What each node replied to a client that acquired the lock, as far as the client can have known when it entered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from fencepost.quorum import quorum
from fencepost.text import listed
from harness.explain.causes import Reason
from harness.explain.evidence import Evidence
from harness.explain.examples import Side
from harness.explain.looked_first import read_own_old
from harness.explain.replies import Asked
from harness.explain.wire_requests import WireRequest
from harness.explain.witnessed import NodeEvent
from harness.explain.words import yes_to_another_request
from harness.history.error_replies import error_of
from harness.history.fault_windows import Window, windows
from harness.history.recorded import Recorded

Word = Literal["yes", "no", "answered", "silent", "not asked", "not set"]
"""`yes`: the node granted it. `no`: it refused. `answered`: its reply does not tell which. `silent`: no reply came
before the client entered. `not asked`: the client sent it no request. `not set`: what clients asked is not on record,
and the witness saw that the node set no key of the client."""

_MISSING: Final = ("silent", "not asked", "not set")


@dataclass(frozen=True, slots=True)
class NodeReply:
    """A node's reply to a client's request for the lock. `word`: None if it was not recorded. `granted`: when the node
    set the key, also if the client did not learn it. `request`: the one that was granted, or
    the last one with which the client asked. `cut`: the fault on the way to the node that may explain a missing reply.
    `has_earlier_yes`: a client that reads each reply as that to its last request, and got out of step when one came
    late, takes a yes to an earlier request for it; with all of these, a majority of the nodes said yes."""

    word: Word | None = None
    granted: NodeEvent | None = None
    request: WireRequest | None = None
    cut: Window | None = None
    has_earlier_yes: bool = False

    @property
    def yes(self) -> bool:
        return self.granted is not None

    @property
    def heard(self) -> bool:
        """Whether the client may have known of the grant."""
        return self.yes and self.word == "yes"

    @property
    def is_known(self) -> bool:
        """Whether it is known if the node granted it, as far as the client could know."""
        return self.word not in (None, "answered")


def replies(run: Recorded, evidence: Evidence, side: Side) -> dict[str, NodeReply]:
    """What each node replied to the client before it entered; of a semaphore, for the place that it asked for last."""
    side = replace(side, key=evidence.asked_last(side.client, side.asked_from_ns, side.start_ns) or side.key)
    faults, majority = windows(run.faults), quorum(len(run.nodes))
    said = {node: _said(evidence, faults, node, side) for node in run.nodes}
    heard = sum(one.heard for one in said.values())
    if heard >= majority:
        return said
    others = {
        node: replace(one, has_earlier_yes=True)
        for node, one in said.items()
        if not one.heard and one.request is not None and evidence.may_take_another(one.request, side.start_ns)
    }
    return said | others if heard + len(others) >= majority else said


def few_had_granted(run: Recorded, evidence: Evidence, side: Side) -> Reason | None:
    """That fewer nodes than a majority had granted it; None if a majority had, or if that is not known. The cause is
    `another reply` if the client may have taken yeses to an earlier request for its own, and with these it had a
    majority."""
    said = replies(run, evidence, side)
    granted = [node for node, one in said.items() if one.heard]
    if len(granted) >= quorum(len(run.nodes)) or not all(one.is_known for one in said.values()):
        return None
    who = f"Only {listed(granted)}" if granted else "No node"
    if errors := counted_errors(said):
        return Reason(f"{who} had granted it: {errors}.", "granted on errors")
    if not granted and (old := read_own_old(run, evidence.wire, side)):
        return Reason(old, "own old key")
    late = [node for node, one in said.items() if one.has_earlier_yes]
    if late:
        return Reason(f"{who} had granted it ({yes_to_another_request(side.client, late)}).", "another reply")
    if refused := refused_by(said):
        return Reason(f"No node had granted it: {listed(refused)} had refused it.", "granted when refused")
    return Reason(f"{who} had granted it.", "too few nodes")


def refused_by(said: Mapping[str, NodeReply]) -> list[str]:
    """The nodes that refused it, if a majority did and no node granted it; else none."""
    refused = sorted(
        node
        for node, one in said.items()
        if one.word == "no" and one.request is not None and error_of(one.request.reply) is None
    )
    is_granted = any(one.yes for one in said.values())
    return refused if len(refused) >= quorum(len(said)) and not is_granted else []


def counted_errors(said: Mapping[str, NodeReply]) -> str:
    """`n1 had answered with the error OOM`, if the grants make a majority only together with errors; else empty."""
    errors = {
        node: one.request.reply_label
        for node, one in said.items()
        if one.word == "no" and one.request is not None and error_of(one.request.reply) is not None
    }
    granted, majority = sum(one.heard for one in said.values()), quorum(len(said))
    if not granted < majority <= granted + len(errors):
        return ""
    return f"{listed(sorted(errors))} had answered with the error {' or '.join(sorted(set(errors.values())))}"


def _said(evidence: Evidence, faults: Sequence[Window], node: str, side: Side) -> NodeReply:
    asked = evidence.asked_by(side.client, node, side.key, side.asked_from_ns, side.start_ns)
    last = asked[-1] if asked else None
    granted = next(
        (
            event
            for event in reversed(evidence.on(node, side.key))
            if event.what == "granted"
            and event.may_be_of(side.client, side.section)
            and event.after_ns <= side.start_ns
            and event.by_ns >= side.asked_from_ns
            and not _is_to_an_earlier_call(evidence, event, last, side)
        ),
        None,
    )
    if granted is not None and last is not None and _was_undone(evidence, granted, last):
        granted = None
    if granted is not None and granted.request is not None:
        last = evidence.requests.get(granted.request)
    word = _word(evidence, node, side, granted is not None, last)
    in_the_way = (w for w in faults if word in _MISSING and _in_the_way(w, node, side))
    return NodeReply(word, granted, None if last is None else last.request, next(in_the_way, None))


def _word(evidence: Evidence, node: str, side: Side, is_granted: bool, last: Asked | None) -> Word | None:
    if is_granted:
        return "yes" if last is None or last.was_heard(side.start_ns) else "silent"
    if last is None and not evidence.has_all(side.client, node):
        owner = side.client, side.section
        is_not_set = evidence.set_nothing(owner, node, side.key, side.asked_from_ns, side.start_ns)
        return "not set" if is_not_set else None
    if last is None:
        return "not asked" if evidence.sent_nothing(side.client, node, side.asked_from_ns, side.start_ns) else None
    if not last.was_heard(side.start_ns):
        return "silent"
    return "no" if last.is_refused else "answered"


def _was_undone(evidence: Evidence, granted: NodeEvent, last: Asked) -> bool:
    """Whether the client deleted what the node had granted, and then asked it once more in vain."""
    sent_ns = last.request.sent_ns
    return (
        last.is_refused
        and sent_ns > granted.by_ns
        and any(
            event.what == "deleted" and event.client == granted.client and event.may_follow(granted)
            for event in evidence.on(granted.node, granted.key)
            if event.after_ns < sent_ns
        )
    )


def _is_to_an_earlier_call(evidence: Evidence, granted: NodeEvent, last: Asked | None, side: Side) -> bool:
    """Whether the node granted what an earlier call had asked for, whose user cancelled it, say, and refused what this
    one asked for. A call that sends nothing may have waited for the reply to the earlier one."""
    asked = None if granted.request is None else evidence.requests.get(granted.request)
    is_earlier = asked is not None and asked.request.sent_ns < side.asked_from_ns
    return is_earlier and last is not None and last.is_refused and last.request.is_refused


def _in_the_way(window: Window, node: str, side: Side) -> bool:
    """Whether the fault may have kept the node from replying while the client asked for the lock."""
    event = window.event
    hit = node in event.nodes or (side.client, node) in event.links
    return hit and event.began_ns <= side.start_ns and (window.to_ns is None or window.to_ns >= side.asked_from_ns)
