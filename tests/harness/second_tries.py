"""Plays that are made again because the machine, and not the lock, decided how they ended; and how a record tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.api import Run, load
from harness.campaign.of_a_run import disturbances
from harness.checkers.disturbance import Figures as Disturbance
from tests.harness import runs

T = TypeVar("T")


class Played(NamedTuple):
    """A run that ended with a verdict, and what the command said of it."""

    code: int
    said: str
    run: Run


def first_that_counts(folder: Path, play: Callable[[Path], T], counts: Callable[[T], bool]) -> T:
    """Play in a new folder below `folder`, at most three times; returns what the first play that counts returned, else
    what the last one did."""
    for number in range(3):
        (place := folder / str(number)).mkdir(parents=True)
        ended = play(place)
        if counts(ended):
            break
    return ended


def script(folder: Path, name: str, *arguments: str) -> tuple[Path, tuple[int, str, str]]:
    """Play an experiment, again if its expectation does not hold: now and then a machine is too late for it. One that
    fails for another reason fails each time. Returns the folder that it was played in, and exit code, stdout and
    stderr."""
    return first_that_counts(
        folder,
        lambda place: (place, runs.fencepost(place, "script", name, *arguments)),
        lambda ended: ended[1][0] == 0,
    )


def played(
    folder: Path, arguments: Sequence[str], counts: Callable[[Played], bool], my_lock: str | None = None
) -> Played:
    """The first run of this command that counts. What does not end with a verdict fails at once. `my_lock`: the text of
    a module of this name."""

    def play(place: Path) -> Played:
        if my_lock is not None:
            (place / "my_lock.py").write_text(my_lock)
        code, out, err = runs.fencepost(place, *arguments)
        assert code in (0, 1, 2), out + err
        return Played(code, out + err, load(runs.only_run(place)))

    return first_that_counts(folder, play, counts)


def caught(folder: Path, arguments: Sequence[str], my_lock: str | None = None) -> Played:
    """The first run with a violation: what a lock or a client does wrong comes to light only if others come in just
    then, which a busy machine may prevent."""
    return played(folder, arguments, lambda each: each.code == 1, my_lock)


def valid(folder: Path, arguments: Sequence[str], as_planned: Callable[[Run], bool]) -> Played:
    """The first run that is valid and as planned, as far as the machine lets it. A violation counts at once."""
    return played(folder, arguments, lambda each: each.code == 1 or (each.code == 0 and as_planned(each.run)))


def spared(folder: Path, arguments: Sequence[str], as_planned: Callable[[Run], bool] = lambda _: True) -> Played:
    """As `valid`; and what happens without the machine's holding anything up counts at once too."""
    return played(
        folder,
        arguments,
        lambda each: each.code == 1 or (each.code == 0 and as_planned(each.run)) or not was_held_up(each.run),
    )


def was_disturbed(run: Run) -> bool:
    """Whether the machine was in the way of an experiment: a restart took longer than the lease lasts, or servers stood
    still, as they do while a disk makes them wait. Then the lock was not put to the test."""
    outlived = any(found.blame == "client" for found in run.verdict.findings)
    return outlived or bool(run.faults["unplanned"].any())


def was_held_up(run: Run) -> bool:
    """Whether the machine kept a run from going as planned: processes woke up late, once by half a lease or again
    and again, or something stood still."""
    figures, ttl_ms = run.verdict.of(Disturbance), run.config.ttl_ms
    often = figures is not None and any(disturbances(figures, ttl_ms))
    once = figures is not None and figures.clients is not None and figures.clients.longest_ms > ttl_ms / 2
    return often or once or bool(run.faults["unplanned"].any())
