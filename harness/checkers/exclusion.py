"""Were two clients inside at once, and who is to blame? The rule is in `harness.overlaps`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from harness.checkers.base import Answer, Blame, Finding, Recorded
from harness.config import Requirement
from harness.overlaps import Ints, Pairs, overlapping_pairs

_BREAKS: Final[dict[Blame, tuple[Requirement, ...]]] = {
    "lock": ("lease", "exclusion"),
    "client": ("exclusion",),
    "undecided": ("exclusion",),
}
_WORDS: Final[dict[Blame, str]] = {
    "lock": "both clients were within the validity that their lock had told them",
    "client": "one client had outlived its validity",
    "undecided": "what was recorded allows both readings",
}
_FIRST: Final = 3


def check(run: Recorded) -> Answer:
    """Figures: `sections`; `overlaps`: pairs by blame; `overlapping_pairs`: all of them, also where there were too many
    to blame each; `longest_overlap_ms`."""
    pairs = overlapping_pairs(run.sections)
    length_ns = _lengths_ns(run.sections, pairs)
    findings, counts = [], {}
    for blame, breaks in _BREAKS.items():
        which = pairs.blamed(blame)
        counts[blame] = len(which)
        if not len(which):
            continue
        longest = which[np.argmax(length_ns[which])]
        chosen = dict.fromkeys([*which[:_FIRST].tolist(), int(longest)])
        noun = "pair of sections" if len(which) == 1 else "pairs of sections"
        text = f"{len(which)} {noun} overlapped, by up to {length_ns[longest] / 1e6:.1f} ms; {_WORDS[blame]}"
        if pairs.total > len(pairs.later):
            text += f" (of {pairs.total} overlapping pairs only the first {len(pairs.later)} were looked at one by one)"
        findings.append(
            Finding(
                checker="exclusion",
                kind="overlap",
                blame=blame,
                text=text,
                breaks=breaks,
                count=len(which),
                examples=tuple(_example(run, pairs, position) for position in chosen),
            )
        )
    figures: dict[str, object] = {
        "sections": len(run.sections),
        "overlaps": counts,
        "overlapping_pairs": pairs.total,
        "longest_overlap_ms": float(length_ns.max()) / 1e6 if len(length_ns) else 0.0,
    }
    return Answer(findings=tuple(findings), figures=figures)


def _lengths_ns(sections: pd.DataFrame, pairs: Pairs) -> Ints:
    end: Ints = sections["end_ns"].to_numpy(np.int64)
    start: Ints = sections["start_ns"].to_numpy(np.int64)
    lengths: Ints = np.minimum(end[pairs.earlier], end[pairs.later]) - start[pairs.later]
    return lengths


def _example(run: Recorded, pairs: Pairs, position: int) -> dict[str, object]:
    a, b = run.sections.iloc[int(pairs.earlier[position])], run.sections.iloc[int(pairs.later[position])]
    result: dict[str, object] = {
        "key": str(a.key),
        "overlap_from_ms": _ms(run, b.start_ns),
        "overlap_ms": float(min(a.end_ns, b.end_ns) - b.start_ns) / 1e6,
        "earlier": _side(run, a),
        "later": _side(run, b),
    }
    if not pairs.both_certain[position]:
        deadline = "deadline_max_ns" if not pairs.both_possible[position] else "deadline_min_ns"
        late = [who for who, side in (("earlier", a), ("later", b)) if side[deadline] < b.start_ns]
        result["outlived" if deadline == "deadline_max_ns" else "may_have_outlived"] = late
    return result


def _side(run: Recorded, section: pd.Series) -> dict[str, object]:
    return {
        "client": str(section.client),
        "life": int(section.life),
        "section": int(section.section),
        "start_ms": _ms(run, section.start_ns),
        "end_ms": _ms(run, section.end_ns),
        "ended": str(section.ended),
        "deadline_min_ms": _ms(run, section.deadline_min_ns),
        "deadline_max_ms": _ms(run, section.deadline_max_ns),
    }


def _ms(run: Recorded, at_ns: int) -> float:
    return (int(at_ns) - run.timeline.start_ns) / 1e6
