"""Did every write build on the value that was there?

An accepted write records what its client had read and what it replaced. If the two differ, it overwrote a value that
its client did not know of. A write is lost if the last accepted write of its key does not build on it, not even through
others. It was lost by the first later write that does not build on it. Only acknowledged writes count.

The same record shows whether the resource itself can be trusted, as in `harness.checkers.counter`; in addition, a write
must replace what the one before it left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fencepost.text import count
from harness.checkers.updates import UpdateFigures, answered, impossible
from harness.figures import Row
from harness.history.groups import Bools, Groups, Ints, known
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

ONLY_IF_NAMED: Final = True
_NOWHERE: Final = "made after reading a value that no earlier write had left"
_NOT_REPLACED: Final = "accepted that did not replace what the write before had left"


class Figures(UpdateFigures, frozen=True):
    """`unseen`: accepted writes that replaced a value which their client had not read."""

    unseen: int

    what: ClassVar[str] = "Register"
    hint: ClassVar[str] = (
        "The lock protects a register in a store of its own, which no fault touches unless asked to. Every section "
        "reads it and writes a new value. A value was lost if nothing that was written later builds on it."
    )

    def rows(self) -> Iterator[Row]:
        for row in super().rows():
            yield Row(row.label, f"{row.text}; {count(self.unseen)} replaced a value that was not read", row.order)

    def own_pairs(self) -> Sequence[tuple[str, str]]:
        return (("Writes that replaced a value that was not read", count(self.unseen)),)


def check(run: Recorded) -> Answer:
    chains = _Chains.of(run)
    wrong = [
        *_resource_is_wrong(run, chains.from_nowhere, _NOWHERE),
        *_resource_is_wrong(run, _not_replaced(run, run.writes_by_key), _NOT_REPLACED),
    ]
    return answered(run, Figures, chains.losers, chains.winners, wrong, unseen=chains.unseen)


@dataclass(frozen=True, slots=True)
class _Chains:
    """What builds on what. `losers`: rows of the lost writes, in the resource's order within each key; `winners`: for
    each the row of the write that it was lost by. `from_nowhere`: rows of writes that build on a value which was not
    there before. `unseen`: how many writes replaced a value that their client had not read."""

    losers: Ints
    winners: Ints
    from_nowhere: Ints
    unseen: int

    @classmethod
    def of(cls, run: Recorded) -> _Chains:
        writes, by_key = run.writes, run.writes_by_key
        values = writes["value"].to_numpy(np.int64)
        reads = known(writes["read"])[1]
        unseen = by_key.take(reads) != _left_before(by_key, by_key.take(values))
        odd = by_key.keep(by_key.spread(unseen))  # nothing is wrong with the other keys
        lost, by, nowhere = list[int](), list[int](), list[int]()
        for begin, end in zip(odd.edges[:-1].tolist(), odd.edges[1:].tolist(), strict=True):
            rows = odd.rows(np.arange(begin, end))
            fate = _fate(values[rows].tolist(), reads[rows].tolist())
            lost += rows[list(fate.lost_by)].tolist()
            by += rows[list(fate.lost_by.values())].tolist()
            nowhere += rows[fate.from_nowhere].tolist()
        return cls(
            losers=np.array(lost, np.int64),
            winners=np.array(by, np.int64),
            from_nowhere=np.array(nowhere, np.int64),
            unseen=int(unseen.sum()),
        )


@dataclass(frozen=True, slots=True)
class _Fate:
    """Places of one key's writes. `lost_by`: the lost ones, in order, and the write that each was lost by."""

    lost_by: dict[int, int]
    from_nowhere: list[int]


def _fate(values: Sequence[int], reads: Sequence[int]) -> _Fate:
    """`values`, `reads`: what one key's writes wrote, and what their clients had read, in the resource's order."""
    place, parents = {0: -1}, list[int]()
    chain, lost_by, from_nowhere = list[int](), dict[int, int](), list[int]()
    for at, (value, read) in enumerate(zip(values, reads, strict=True)):
        if read not in place:
            from_nowhere.append(at)
        parent = place.get(read, at - 1)
        parents.append(parent)
        while chain and chain[-1] > parent:  # these are not among what this write builds on
            lost_by[chain.pop()] = at
        chain.append(at)
        place[value] = at
    survivor = len(parents) - 1
    while survivor >= 0:  # what was overwritten can come back: a late write may build on it
        lost_by.pop(survivor, None)
        survivor = parents[survivor]
    return _Fate(dict(sorted(lost_by.items())), from_nowhere)


def _left_before(by_key: Groups, values: Ints) -> Ints:
    """For each place what the key's write before it left; 0 for the first. `values`: by place."""
    before: Ints = np.append(0, values)[: len(values)]
    before[by_key.begins] = 0
    return before


def _not_replaced(run: Recorded, by_key: Groups) -> Ints:
    """Rows of writes that recorded another value as replaced than the write before them had left."""
    there, replaced = known(run.writes["replaced"])
    values = run.writes["value"].to_numpy(np.int64)
    wrong: Bools = by_key.take(there) & (by_key.take(replaced) != _left_before(by_key, by_key.take(values)))
    return np.sort(by_key.rows(np.flatnonzero(wrong)))


def _resource_is_wrong(run: Recorded, rows: Ints, what: str) -> list[Finding]:
    return impossible(run, rows, f"{len(rows)} {'write was' if len(rows) == 1 else 'writes were'} {what}")
