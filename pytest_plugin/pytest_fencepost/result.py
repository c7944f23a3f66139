"""What a run of fencepost found, as a test sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 2
"""Of the file that `fencepost test --json` writes."""
_AS_TOLD = ("verdict", "conclusion", "require", "kept", "story", "lock", "nemesis", "seed", "replay")


@dataclass(frozen=True)
class Finding:
    """Something that was found. `blame`: lock, client, undecided, resource or harness. `breaks`: whether it breaks what
    was required. `promise`: what it belongs to. `first_ms`: when it first happened, counted from the start of the load.
    `why`: how that came about."""

    kind: str
    blame: str
    text: str
    breaks: bool
    promise: str
    count: int
    first_ms: float | None
    why: str


@dataclass(frozen=True)
class Limit:
    """A limit that was set, as it was given. `outcome`: met, missed or unknown. `measured`: in milliseconds for a time;
    None if it is unknown. `text`: the same in words."""

    limit: str
    outcome: str
    measured: float | None
    text: str


@dataclass(frozen=True)
class Run:
    """A run that was judged. `verdict`: valid, violation or unknown; `conclusion`: the same or limit missed, with what
    the `limits` add to it. `require`: what was asked for. `promises`: how each promise that was judged came out (kept,
    broken, undecided or unknown), whether or not it was required; `kept`: the same in a line. `story`: the verdict in
    words, and how the first cause came about. `unknown`: why it cannot be called valid. `hides`: what else was found,
    such as lost updates, that breaks a promise that was not required. `folder`: everything that was recorded.
    `picture`: a page to open in a browser. `replay`: a command that makes the run again. `diagram`: of
    the first cause, clients and nodes as lines and requests as arrows; empty if there is none."""

    verdict: str
    conclusion: str
    require: str
    promises: Mapping[str, str]
    kept: str
    story: str
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]
    lock: str
    nemesis: str
    seed: int
    folder: Path
    picture: Path
    replay: str
    hides: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    diagram: str = ""

    @property
    def valid(self) -> bool:
        """Whether nothing that was required was seen to break, and every limit was met. False for a run that does not
        show it."""
        return self.conclusion == "valid"

    def __repr__(self) -> str:
        return f"<run of {self.lock} under {self.nemesis}, seed {self.seed}: {self.conclusion}>"


def run_from(told: Mapping[str, Any]) -> Run:
    """The run in a file of `fencepost test --json`. Raises KeyError or TypeError for any other document."""
    return Run(
        **{name: told[name] for name in _AS_TOLD},
        findings=tuple(
            Finding(**{name: each[name] for name in Finding.__dataclass_fields__}) for each in told["findings"]
        ),
        promises={each["promise"]: each["outcome"] for each in told["promises"]},
        unknown=tuple(told["unknown"]),
        hides=tuple(told.get("hides", ())),
        limits=tuple(
            Limit(**{name: each[name] for name in Limit.__dataclass_fields__}) for each in told.get("limits", ())
        ),
        folder=Path(told["folder"]),
        picture=Path(told["page"]),
        diagram=told.get("diagram", ""),
    )
