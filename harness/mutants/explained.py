"""Is `explain` right about the cause? What it should say about each mutant, and what it said in the runs on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.text import plural
from harness.campaign.folder import RunLine
from harness.campaign.measure import Blamed
from harness.explain.causes import IN_WORDS
from workloads.mutants import Mutant

_WORDS: Final[dict[str, str]] = {str(cause): words for cause, words in IN_WORDS.items()} | {"": "what the finding says"}
HEADS: Final = ("mutant", "explain should say", "it says: runs")


class NamedCauses(msgspec.Struct, frozen=True, kw_only=True):
    """How the findings that name a mutant were explained. `should`: the causes of which one must be named
    (`harness.explain.causes`), one for each of these findings; `causes`: in how many runs which was; `wrong`: in how
    many runs it was not that of its finding. `why`: a sentence of one run, one with the right cause if there is any."""

    should: tuple[str, ...]
    causes: dict[str, int]
    why: str
    wrong: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the cause was the right one in every run."""
        return not self.wrong


def said_of(mutant: Mutant, lines: Sequence[RunLine]) -> NamedCauses | None:
    """What the first explanations said in these runs of the mutant; where nothing explains its finding, that speaks for
    itself. None if it was never found."""
    should = {mutant.finding: mutant.cause, **mutant.also}
    said = [
        (found.cause or "", found.why or found.text, (found.cause or "") == should[found.kind])
        for line in lines
        if line.figures
        if (found := _naming(mutant, line.figures.blamed))
    ]
    if not said:
        return None
    why = next((why for _, why, is_right in said if is_right), said[0][1])
    return NamedCauses(
        should=tuple(dict.fromkeys(should.values())),
        causes=dict(Counter(cause for cause, _, _ in said).most_common()),
        why=why,
        wrong=sum(not is_right for _, _, is_right in said),
    )


def _naming(mutant: Mutant, blamed: Sequence[Blamed]) -> Blamed | None:
    """The finding that names the mutant: the declared one, if it is there."""
    named = [found for found in blamed if mutant.is_named_by(found.kind, found.cause)]
    return min(named, key=lambda found: found.kind != mutant.finding, default=None)


def cells(rows: Sequence[tuple[str, NamedCauses]]) -> list[tuple[str, str, str]]:
    """For each mutant what should be said and what is, in words."""
    return [
        (
            name,
            " or ".join(_WORDS[cause] for cause in said.should),
            "; ".join(f"{_WORDS[cause]}: {runs}" for cause, runs in said.causes.items()),
        )
        for name, said in rows
    ]


def conclusion(rows: Sequence[tuple[str, NamedCauses]]) -> str:
    """One sentence; empty if nothing was explained."""
    right = sum(said.is_right for _, said in rows)
    return f"It names the right cause in every run of {right} of {plural(len(rows), 'mutant')}." if rows else ""
