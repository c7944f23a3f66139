"""A judged run, as reports take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.explain.explanation import Explained
from harness.explain.space_time import Album
from harness.history.recorded import Recorded
from harness.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """`environment`: what `environment.json` holds; anything in it may be missing. `replay`: the command that makes the
    run again. `explained`: how the findings' own examples came about. `album`: draws the first one of each finding."""

    recorded: Recorded
    verdict: Verdict
    environment: Mapping[str, Any] = field(default_factory=dict)
    replay: str = ""
    explained: Sequence[Explained] = ()
    album: Album | None = None
