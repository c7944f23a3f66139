"""Were more clients inside at the same time than a semaphore has permits, and who is to blame? The rule is in
`harness.history.capacity`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fencepost.quorum import quorum
from fencepost.text import count, listed, milliseconds, plural, printable
from harness.checkers.exclusion import blame_line, blame_tiles, blames_in_words, side_of
from harness.explain.examples import Case, Side
from harness.explain.kinds import Evidence, FindingKind, Told
from harness.explain.looked_first import asked_nothing, looked_first, took_nothing
from harness.explain.meeting import UNRECORDED
from harness.explain.node_replies import replies
from harness.explain.nodes import parts
from harness.explain.overlap import NOT_RECORDED, by_client, by_lock, undecided
from harness.explain.permits import below_zero, earlier_score, gave, given_unasked, place_expired
from harness.explain.requests import client_of, how_sent
from harness.explain.same_value import same_member
from harness.explain.taken_entry import entry_taken
from harness.explain.words import at
from harness.figures import Cell, CheckerFigures, Row, Tile
from harness.history.capacity import Excess, count_crowding, open_with
from harness.history.key_changes import SETS
from harness.history.overlaps import BLAMES, OverlapBlame
from harness.history.recorded import Recorded
from harness.verdict import Answer

ONLY_IF_NAMED: Final = True

_WORDS: Final[dict[OverlapBlame, str]] = {
    "lock": "all of them still held valid leases",
    "client": "at least one of them had outlived its lease",
    "undecided": "the record allows both readings",
}

_FIRST: Final = 3
_TOO_MANY: Final = ", more than there are permits."
"""So ends what says no more than the finding itself."""


class Figures(CheckerFigures, frozen=True):
    """`most_inside`: the largest number of clients inside one key at once. `beyond`: by blame, the sections at whose
    start more clients than permits were inside. `longest_beyond_ms`: the longest time for which that lasted; 0 if it
    never happened."""

    permits: int
    sections: int
    most_inside: int
    beyond: dict[OverlapBlame, int]
    longest_beyond_ms: float

    def rows(self) -> Iterator[Row]:
        """`2 permits, at most 3 inside for up to 12 ms: lock 1 of 1,234 sections (…) · client 0 · undecided 0`."""
        longest = f" for up to {milliseconds(self.longest_beyond_ms)}" if self.have_blame else ""
        yield Row(
            "capacity",
            f"{plural(self.permits, 'permit')}, at most {count(self.most_inside)} inside at once; more than the "
            f"permits{longest}: {blames_in_words(self.beyond, self.sections)}",
            order=20,
        )

    def tiles(self) -> Iterator[Tile]:
        yield Tile(
            "Inside at once",
            count(self.most_inside),
            f"of {plural(self.permits, 'permit')}",
            "warn" if self.most_inside > self.permits else "",
            order=20,
        )
        yield from blame_tiles("Beyond the permits", self.beyond, self.sections)

    def cells(self) -> Iterator[Cell]:
        yield Cell("sections", count(self.sections), order=10)
        yield Cell("inside", f"{count(self.most_inside)}/{count(self.permits)}", "inside: most at once / permits", 20)
        yield Cell(
            "beyond",
            "/".join(count(self.beyond[blame]) for blame in BLAMES),
            legend="beyond: entries beyond the permits, blamed on the lock / on a client that outlived its lease / "
            "undecided",
            order=21,
        )

    @property
    def have_blame(self) -> bool:
        """Whether there is anything to blame."""
        return any(self.beyond.values())

    @property
    def blame_line(self) -> str:
        """`Entries beyond the permits: 0 blamed on the lock, 3 on a client that outlived its lease, 1 undecided.`"""
        return blame_line("Entries beyond the permits", self.beyond)


def check(run: Recorded) -> Answer:
    permits = run.config.permits
    crowding = count_crowding(run.sections, permits, run.sections_by_key)
    findings = []
    permitted = "1 client was" if permits == 1 else f"{permits} clients were"
    for blame, excess in crowding.excess.items():
        number, most = len(excess.rows), int(excess.inside.max())
        times = f"{plural(number, 'time')}, up to {most} clients"
        text = f"more than {permitted} inside at once ({times}); {_WORDS[blame]}"
        examples = tuple(
            _example(run, blame, int(excess.rows[place]), int(excess.inside[place])) for place in _shown(excess)
        )
        at_ms = run.at_ms(run.sections["start_ns"].iloc[int(excess.rows.min())])
        findings.append(OVER_CAPACITY.found(blame, text, number, examples, at_ms))
    figures = Figures(
        permits=permits,
        sections=len(run.sections),
        most_inside=crowding.most,
        beyond={blame: len(crowding.excess[blame].rows) if blame in crowding.excess else 0 for blame in BLAMES},
        longest_beyond_ms=crowding.longest_ns / 1e6,
    )
    return Answer(figures, tuple(findings))


def _shown(excess: Excess) -> list[int]:
    """The places of the first entries and of the most crowded one."""
    return list(dict.fromkeys([*range(min(_FIRST, len(excess.rows))), int(np.argmax(excess.inside))]))


def _example(run: Recorded, blame: OverlapBlame, row: int, inside: int) -> dict[str, object]:
    """One entry beyond the permits, as an example of a finding. `others`: the sections that were open then and
    count for this blame."""
    sections = run.sections.iloc[open_with(run.sections, row, blame)]
    entered = sections.iloc[-1]
    result: dict[str, object] = {
        "key": str(entered.key),
        "at_ms": run.at_ms(entered.start_ns),
        "inside": inside,
        "permits": run.config.permits,
        "entered": side_of(run, entered),
        "others": tuple(side_of(run, other) for _, other in sections.iloc[:-1].iterrows()),
    }
    if blame != "lock":
        deadline = sections["deadline_max_ns" if blame == "client" else "deadline_min_ns"]
        late = sections[(deadline < entered.start_ns).to_numpy(np.bool_)]
        result["outlived" if blame == "client" else "may_have_outlived"] = tuple(late["client"].astype(str))
    return result


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    """Why a client could enter although every permit was taken: in the end two clients shared a permit, or the nodes
    gave too many votes, or a client had outlived its lease."""
    if "entered" not in case.named or len(case.sides) < 2:
        return Told(UNRECORDED)
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
            if shared := same_member(run, [*others, entered]):
                return Told(f"{head} {shared}", cause="shared value")
            if taken := entry_taken(run, evidence.wire, others, entered):
                return Told(f"{head} {taken.text}", cause=taken.cause)
            if looked := looked_first(run, evidence.wire, others, entered):
                return Told(f"{head} {looked.text}", cause=looked.cause)
            if unasked := asked_nothing(run, evidence.wire, [entered]):
                return Told(f"{head} {unasked}", cause="granted unasked")
            if nothing := took_nothing(run, evidence.wire, [entered, *reversed(others)]):
                return Told(f"{head} {nothing}", cause="took nothing")
            votes = _votes(evidence, [*others, entered], run)
            text = head if votes.endswith(NOT_RECORDED) else f"{head} {votes}"
            if (low := below_zero(run, entered)) is not None:
                why = f"{client_of(low)} had lowered {printable(str(low['key']))} on {low['node']} to {low['value']}"
                return Told(f"{text} Before that, {why}: {how_sent(run, low)}.", cause="below zero")
            if (ranked := earlier_score(evidence, [*others, entered])) is not None:
                return Told(f"{text} {ranked}", cause="ranked by clients")
            if (expired := place_expired(run, entered)) is not None:
                return Told(f"{text} Before that, {expired.text}", cause=expired.cause)
            if (given := given_unasked(run, entered)) is None:
                return Told(f"{head} {votes}", cause="unknown" if votes.endswith((_TOO_MANY, NOT_RECORDED)) else None)
            why, cause = gave(run, given)
            return Told(f"{text} Before that, {why}", cause=cause)
        found = parts(run, evidence, *pair)
        shared = f"{pair[0].client} and {pair[1].client} had the same slot ({printable(pair[0].key)}). "
        because, _ = by_lock(run, evidence, found, *pair)
        text = f"{head} {shared if pair[0].key != entered.key else ''}{because}"
        return Told(text, parts=found, pair=pair)
    pair = _with_the_late_one(others, entered, case.finding.blame == "client")
    told = by_client(run, *pair) if case.finding.blame == "client" else undecided(run, (), *pair)
    return Told(f"{head} {told}", pair=pair)


def _sharing(evidence: Evidence, sides: Sequence[Side]) -> tuple[Side, Side] | None:
    """Two sections that were granted the same one of several keys of a lock, the last two of them, under that key's
    name on the nodes."""
    by_slot: dict[str, Side] = {}
    found = None
    for side in sides:
        slot = _slot(evidence, side)
        if slot is None or slot == side.key or evidence.has_members(slot):
            continue
        named = replace(side, key=slot)
        if named.key in by_slot:
            found = by_slot[named.key], named
        by_slot[named.key] = named
    return found


def _slot(evidence: Evidence, side: Side) -> str | None:
    """The key that the section's acquire asked for last; or the one that it set, for a script may be told of several
    keys and take any of them."""
    asked = evidence.asked_last(side.client, side.asked_from_ns, side.start_ns)
    if evidence.ledger is None:
        return asked
    rows = evidence.ledger.rows
    is_set = side.made(rows, "acquire") & rows["what"].isin(SETS) & rows["is_in_call"]
    own = set(rows["key"][is_set].astype(str))
    return next(iter(own)) if len(own) == 1 else asked


def _votes(evidence: Evidence, sides: Sequence[Side], run: Recorded) -> str:
    """How many nodes granted it to each client, and how many clients each node let in; not of servers of which it is
    not known which of their replies grant a lock."""
    granted: dict[str, list[str]] = {}
    if run.unwatchable is not None:
        return f"All of them acquired the lock. {NOT_RECORDED}"
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
        return f"{text} {many}{_TOO_MANY}"
    fewest = min(len(nodes) for nodes in granted.values())
    needed = run.config.nodes * permits // (permits + 1) + 1
    if majority <= fewest < needed:
        return (
            f"{text} No node let in more than {permits}. But where each node lets in {permits}, a majority of "
            f"{majority} of {run.config.nodes} nodes does not exclude another client; {needed} nodes would."
        )
    return f"{text} No node let in more than {permits} of them."


def _with_the_late_one(others: Sequence[Side], entered: Side, surely: bool) -> tuple[Side, Side]:
    """Two of the sections: the one that entered, and one such that one of the two had outlived its lease by then, or
    may have."""
    late = [side for side in others if (side.deadline_max_ns if surely else side.deadline_min_ns) < entered.start_ns]
    return (late or others)[0], entered


OVER_CAPACITY: Final = FindingKind(
    "over-capacity",
    "exclusion",
    _told,
    comes_of=("deleted", "deleted by itself", "expired"),
    noun="time(s) too many clients were inside",
    surveyed="exclusive",
)
