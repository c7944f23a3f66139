"""How more clients than permits came to be inside: in the end two of them shared a permit, or the nodes gave too many
votes, or somebody had outlived its lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fencepost.quorum import quorum
from fencepost.text import listed, plural, printable
from harness.explain.cases import Case, Side
from harness.explain.evidence import Evidence
from harness.explain.node_replies import replies
from harness.explain.nodes import NodePart, parts
from harness.explain.overlap import NOT_RECORDED, by_client, by_lock, undecided
from harness.explain.phrases import at
from harness.history.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Cause:
    """A sentence. `parts`: each node's part in the meeting of the `pair` of sections that explains it."""

    sentence: str
    parts: tuple[NodePart, ...] = ()
    pair: tuple[Side, ...] = ()


def find_cause(run: Recorded, evidence: Evidence, case: Case) -> Cause:
    """Why a client could enter although every permit was taken."""
    entered = case.named["entered"]
    others = [side for side in case.sides if side is not entered]
    head = (
        f"{entered.client} entered at {at(run, entered.start_ns)}, while {listed([side.client for side in others])} "
        f"{'was' if len(others) == 1 else 'were'} inside: {plural(len(others) + 1, 'client')} for "
        f"{plural(run.config.permits, 'permit')}."
    )
    if case.finding.blame == "lock":
        pair = _sharing(evidence, [*others, entered])
        if pair is None and len(others) == 1:
            pair = (others[0], entered)
        if pair is None:
            return Cause(f"{head} {_votes(evidence, [*others, entered], run)}")
        found = parts(run, evidence, *pair)
        shared = f"{pair[0].client} and {pair[1].client} had the same slot ({printable(pair[0].key)}). "
        return Cause(
            f"{head} {shared if pair[0].key != entered.key else ''}{by_lock(run, evidence, found, *pair)}", found, pair
        )
    pair = _with_the_late_one(others, entered, case.finding.blame == "client")
    told = by_client(run, *pair) if case.finding.blame == "client" else undecided(run, (), *pair)
    return Cause(f"{head} {told}", pair=pair)


def _sharing(evidence: Evidence, sides: Sequence[Side]) -> tuple[Side, Side] | None:
    """Two sections that were granted the same one of several keys of a lock, the last two of them, under that key's
    name on the nodes."""
    by_slot: dict[str, Side] = {}
    found = None
    for side in sides:
        slot = evidence.asked_last(side.client, side.asked_from_ns, side.start_ns)
        if slot is None or slot == side.key or evidence.has_members(slot):
            continue
        named = replace(side, key=slot)
        if named.key in by_slot:
            found = by_slot[named.key], named
        by_slot[named.key] = named
    return found


def _votes(evidence: Evidence, sides: Sequence[Side], run: Recorded) -> str:
    """How many nodes granted it to each client, and how many clients each node let in."""
    granted: dict[str, list[str]] = {}
    for side in sides:
        said = replies(run, evidence, side)
        if not any(one.is_known for one in said.values()):
            return f"All of them acquired the lock. {NOT_RECORDED}"
        granted[side.client] = [node for node, one in said.items() if one.heard]
    each = [f"{client} was let in by {listed(nodes) if nodes else 'no node'}" for client, nodes in granted.items()]
    text = f"All of them were within their leases: {'; '.join(each)}."
    permits, majority = run.config.permits, quorum(run.config.nodes)
    full = {
        node: number
        for node in run.config.node_names
        if (number := sum(node in nodes for nodes in granted.values())) > permits
    }
    if full:
        many = listed([f"{node} let in {number} of them" for node, number in full.items()])
        return f"{text} {many}, more than there are permits."
    fewest = min(len(nodes) for nodes in granted.values())
    needed = run.config.nodes * permits // (permits + 1) + 1
    if majority <= fewest < needed:
        return (
            f"{text} No node let in more than {permits}: a majority of {majority} nodes is not enough if every node "
            f"counts to {permits}; {needed} would be."
        )
    return f"{text} No node let in more than {permits} of them."


def _with_the_late_one(others: Sequence[Side], entered: Side, surely: bool) -> tuple[Side, Side]:
    """Two of the sections: the one that entered, and one such that one of the two had outlived its lease by then, or
    may have."""
    late = [side for side in others if (side.deadline_max_ns if surely else side.deadline_min_ns) < entered.start_ns]
    return (late or others)[0], entered
