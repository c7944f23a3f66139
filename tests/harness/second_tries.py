"""Plays that are made again because the machine, and not the lock, decided how they ended; and how a record tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.api import Run, load
from harness.campaign.disturbed import disturbances
from harness.checkers.disturbance import Figures as Disturbance
from tests.harness import runs

T = TypeVar("T")


def first_that_counts(folder: Path, play: Callable[[Path], T], counts: Callable[[T], bool]) -> T:
    """Play in a new folder below `folder`, at most three times; returns what the first play that counts returned, else
    what the last one did."""
    for number in range(3):
        (place := folder / str(number)).mkdir(parents=True)
        played = play(place)
        if counts(played):
            break
    return played


def script(folder: Path, name: str, *arguments: str) -> tuple[Path, tuple[int, str, str]]:
    """Play an experiment, again if the machine was in its way. Returns the folder that it was played in, and exit code,
    stdout and stderr."""
    return first_that_counts(
        folder,
        lambda place: (place, runs.fencepost(place, "script", name, *arguments)),
        lambda played: played[1][0] == 0 or not was_disturbed(load(runs.only_run(played[0]))),
    )


def was_disturbed(run: Run) -> bool:
    """Whether the machine was in the way of an experiment: a restart took longer than the lease lasts, or servers stood
    still, as they do while a disk makes them wait. Then the lock was not put to the test."""
    outlived = any(found.blame == "client" for found in run.verdict.findings)
    return outlived or bool(run.faults["unplanned"].any())


def was_struck(run: Run) -> bool:
    """Whether a node that was taken down was back while a section lasted that depended on it, and others had the time
    to try again: only then does it matter what the node forgot. On a busy machine a restart may outlast the section."""
    faults, sections = run.faults, run.sections
    strikes = faults[(faults["event"] == "injected") & faults["keys_at_stake"].map(bool)]
    tried_again_ns = round(run.config.retry_delay_ms * 1e6)
    return any(
        (
            (sections["asked_ns"] < strike.began_ns)
            & (sections["start_ns"] < strike.done_ns)
            & (sections["end_ns"] > strike.back_ns + tried_again_ns)
        ).any()
        for strike in strikes.merge(
            faults.loc[faults["event"] == "healed", ["fault", "done_ns"]].rename(columns={"done_ns": "back_ns"}),
            on="fault",
        ).itertuples()
    )


def was_held_up(run: Run) -> bool:
    """Whether the machine kept a run from going as planned: processes woke up late, once by half a lease or again
    and again, or something stood still."""
    figures, ttl_ms = run.verdict.of(Disturbance), run.config.ttl_ms
    often = figures is not None and any(disturbances(figures, ttl_ms))
    once = figures is not None and figures.clients is not None and figures.clients.longest_ms > ttl_ms / 2
    return often or once or bool(run.faults["unplanned"].any())
