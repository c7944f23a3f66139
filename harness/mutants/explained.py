"""Is `explain` right about the cause? What it should say about each mutant, and what it said in the runs on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.markdown import table
from fencepost.text import plural
from harness.campaign.folder import RunLine
from harness.explain.causes import IN_WORDS
from workloads.mutants import Mutant

_WORDS: Final[dict[str, str]] = {str(cause): words for cause, words in IN_WORDS.items()} | {"": "what the finding says"}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """How the finding that names a mutant was explained. `should`: the cause that must be named, one of those of
    `harness.explain.causes`; `causes`: in how many runs which was. `why`: a sentence of one run, one with the right
    cause if there is any."""

    should: str
    causes: dict[str, int]
    why: str

    @property
    def is_right(self) -> bool:
        """Whether the cause was the right one in every run."""
        return self.causes.keys() == {self.should}


def said_of(mutant: Mutant, lines: Sequence[RunLine]) -> Said | None:
    """What the first explanations said in these runs of the mutant; where nothing explains its finding, that speaks for
    itself. None if it was never found."""
    named = (
        next((found for found in line.figures.blamed if found.kind == mutant.finding), None)
        for line in lines
        if line.figures
    )
    said = [(found.cause or "", found.why or found.text) for found in named if found]
    if not said:
        return None
    counts = Counter(cause for cause, _ in said)
    why = next((why for cause, why in said if cause == mutant.cause), said[0][1])
    return Said(should=mutant.cause, causes=dict(counts.most_common()), why=why)


def cells(rows: Sequence[tuple[str, Said]]) -> list[tuple[str, str, str]]:
    """For each mutant what should be said and what is, in words."""
    return [
        (
            name,
            _WORDS[said.should],
            "; ".join(f"{_WORDS[cause]}: {runs}" for cause, runs in said.causes.items()),
        )
        for name, said in rows
    ]


def conclusion(rows: Sequence[tuple[str, Said]]) -> str:
    """One sentence; empty if nothing was explained."""
    right = sum(said.is_right for _, said in rows)
    return f"It names the right cause in every run of {right} of {plural(len(rows), 'mutant')}." if rows else ""


def explanations(rows: Sequence[tuple[str, Said]]) -> list[str]:
    """The table in Markdown, with its heading; `rows`: with the mutants' names. Empty if nothing was explained."""
    if not rows:
        return []
    return [
        "## What `fencepost explain` says",
        "",
        conclusion(rows),
        "",
        *table(
            ("mutant", "it should say", "it says: runs", "in one of them"),
            [(*cell, said.why) for cell, (_, said) in zip(cells(rows), rows, strict=True)],
        ),
        "",
    ]
