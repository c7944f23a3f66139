"""A judged run for other programs: what `--json FILE` tells of it (docs/result.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from harness.checkers.consequences import one_by_one
from harness.config import RunConfig
from harness.explain.explanation import Explained, clearest_of
from harness.explain.space_time import Album
from harness.report.result_file import RESULT_SCHEMA
from harness.report.space_time_text import text_picture
from harness.report.wording import headline, outcomes, promises
from harness.verdict import Blame, Conclusion, Finding, Outcome, Verdict, Word, hidden, ordered


class FoundInRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finding. `breaks`: whether it breaks what was required. `promise`: what it belongs to. `first_ms`: when it
    first happened, counted from the start of the load. `why`: how that came about; empty if that was not explained."""

    kind: str
    blame: Blame
    text: str
    breaks: bool
    promise: str
    count: int
    first_ms: float | None
    why: str


class LimitInRun(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as it was given, and how it came out. `measured`: in milliseconds for a time; None if it is unknown.
    `text`: the same in words."""

    limit: str
    outcome: Literal["met", "missed", "unknown"]
    measured: float | None
    text: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was judged. `conclusion`: what the exit code says, of the verdict and the `limits`. `promises`: how
    each that was judged came out; `kept`: the same in a line. `story`: the verdict in words, the promises, the limits,
    and how the first cause came about, a line each. `unknown`: why the run cannot be called valid. `hides`: what breaks
    a promise and does not decide (`harness.verdict.hidden`). `page`: the picture of the run. `replay`: the command that
    makes it again. `diagram`: the space-time diagram of the first cause, as text; empty if there is none."""

    schema: int = RESULT_SCHEMA
    verdict: Word
    conclusion: Conclusion
    limits: tuple[LimitInRun, ...]
    require: str
    promises: tuple[Outcome, ...]
    kept: str
    story: str
    findings: tuple[FoundInRun, ...]
    unknown: tuple[str, ...]
    hides: tuple[str, ...]
    lock: str
    nemesis: str
    seed: int
    folder: str
    page: str
    replay: str
    diagram: str = ""


def result_of(
    config: RunConfig,
    verdict: Verdict,
    folder: Path,
    replay: str,
    explained: Sequence[Explained] = (),
    album: Album | None = None,
) -> Result:
    """The result of a judged run; findings that break what was required come first."""
    findings = tuple(_found(finding, verdict, explained) for finding in ordered(verdict))
    word, says = headline(verdict, explained)
    causes = one_by_one(verdict, explained) if verdict.verdict == "violation" else ()
    why = _why(causes[0].finding, explained) if causes else ""
    return Result(
        verdict=verdict.verdict,
        conclusion=verdict.conclusion,
        limits=tuple(
            LimitInRun(limit=str(each.limit), outcome=each.outcome, measured=each.measured, text=str(each))
            for each in verdict.limits
        ),
        require=verdict.require,
        promises=verdict.promises,
        kept=promises(verdict),
        story="\n".join(filter(None, (f"{word} — {says}", *outcomes(verdict), why))),
        findings=findings,
        unknown=verdict.unknown,
        hides=tuple(found.text for found in hidden(verdict.findings, verdict.require)),
        lock=config.lock_name,
        nemesis=config.nemesis,
        seed=config.seed,
        folder=str(folder.absolute()),
        page=str(folder.absolute() / "report.html"),
        replay=replay,
        diagram=_diagram(causes[0].finding, explained, album) if causes and album else "",
    )


def _found(finding: Finding, verdict: Verdict, explained: Sequence[Explained]) -> FoundInRun:
    return FoundInRun(
        kind=finding.kind,
        blame=finding.blame,
        text=finding.text,
        breaks=finding.decides(verdict.require),
        promise=finding.promise or "none",
        count=finding.count,
        first_ms=finding.at_ms,
        why=_why(finding, explained),
    )


def _diagram(finding: Finding, explained: Sequence[Explained], album: Album) -> str:
    told = clearest_of(finding, explained)
    picture = album.picture(told) if told else None
    return "\n".join(text_picture(picture)) if picture else ""


def _why(finding: Finding, explained: Sequence[Explained]) -> str:
    told = clearest_of(finding, explained)
    return f"{told.sentence} {told.because}".strip() if told else ""
