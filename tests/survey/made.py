"""Surveys that nobody played: lines as runs would leave them."""

from __future__ import annotations

from typing import Any

from harness.campaign.exposure import MinorityOutage, Stakes
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.grid import Grid
from harness.campaign.measure import Blamed
from harness.survey.grid import survey_grid
from harness.survey.subjects import Subject, chosen
from tests.campaign import made

HUNG = MinorityOutage("hung", 5_000, 100, 80)


def blamed(kind: str) -> Blamed:
    return Blamed(kind, 1_200.0, f"the words of {kind}", None, f"Why it came to {kind}.", 3)


def line(
    subject: str,
    fault: str = "partition",
    use: str = "short holds",
    *found: Blamed,
    seed: int = 1,
    verdict: str = "valid",
    stakes: dict[str, Any] | None = None,
    **figures: Any,
) -> RunLine:
    """A run in which every promise was at stake, except those about servers."""
    whole: dict[str, Any] = {
        "calls": {"acquire": {"ok": 90}, "extend": {"ok": 9}},
        "met": {"acquire": 40},
        "acquire_limit_ms": 500.0,
        "keys_looked_at": 70,
    }
    of = {"faults_planned": 3, "faults_observed": 3, "orphans": 4, "blamed": found} | figures
    return RunLine(
        cell=f"{subject} · {fault} · {use}",
        seed=seed,
        folder=f"run-{subject}-{fault}-{use}-{seed}".replace(" ", "-"),
        verdict=verdict,
        took_s=12,
        figures=made.figures(**of, stakes=Stakes(**whole | (stakes or {}))),
    )


def subject(name: str) -> Subject:
    (one,) = chosen([name], quick=False)
    return one


def grid(*names: str, seeds: int = 5) -> Grid:
    return survey_grid([subject(name) for name in names], seeds, "process")


def campaign(of: Grid) -> Campaign:
    return Campaign(grid=of, revision="1a2b3c", command="fencepost survey", machine={"cores": 2})
