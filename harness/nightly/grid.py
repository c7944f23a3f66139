"""The runs of a night: what failed in the night before, the controls, and the standard faults on as many locks as there
is time for. Locks and seeds rotate, so that every lock has its turn and no night repeats another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.campaign.grid import Cell, Grid, Part, check
from harness.nightly.nights import Failing, Kind
from harness.survey.subjects import Subject

_BESIDES_S: Final = 15.0
"""What a run takes beside its load: to come up, to go down and to be judged."""
_MOST_AGAIN: Final = 20
_RECOVERY_S: Final = 2
_SLOW_ANSWERS: Final = {
    "nemesis": "latency:interval=2s,duration=4s,kind=delay,delay=300ms-600ms,direction=from-node,targets=all",
    "node-timeout": "800ms",
    "hold": "uniform:600ms-950ms",
}
_REQUIRED: Final = {"require": "lease"}
"""As in all nights before, so that the trend goes on. What else the lock is blamed for is counted beside it."""
_CUTS_AND_PAUSES: Final = {"nemesis": "partition+pause"}
CONTROLS: Final[Mapping[str, Mapping[str, str]]] = {
    "control-no-unique-value": _CUTS_AND_PAUSES,
    "control-quorum-of-two": _CUTS_AND_PAUSES,
    "control-release-without-comparing": _CUTS_AND_PAUSES,
    "control-no-validity-check": _SLOW_ANSWERS,
    "control-extend-without-comparing": _CUTS_AND_PAUSES | {"workload": "leader"},
    "control-rw-lock-first-reader-out": _CUTS_AND_PAUSES | {"workload": "rw-lock"},
    "control-semaphore-by-majority": _CUTS_AND_PAUSES | {"workload": "semaphore", "permits": "2"},
}
"""Locks that are broken on purpose, and options of `fencepost test` that show it."""
SCRIPTED_CONTROLS: Final = {"control-wall-clock": "client-clock-step-by-the-wall"}
"""Controls that an experiment of `fencepost script` shows, because no random fault does it within seconds."""
QUICK_CONTROLS: Final = ("control-quorum-of-two", "control-no-validity-check")


def nightly_grid(
    subjects: Sequence[Subject],
    clusters: Sequence[str],
    first_seed: int,
    failing: Sequence[Failing],
    *,
    budget_s: float,
    quick: bool,
) -> Grid:
    """`budget_s`: about how long all runs may take. What failed and the controls are played in any case; the rest of
    the time goes to the subjects."""
    load_s, control_s = (10, 20) if quick else (60, 20)
    by_lock = {subject.lock: subject for subject in subjects}
    again = [
        _cell(by_lock[one.lock], one.cluster, seed=one.seed)
        for one in failing[-_MOST_AGAIN:]
        if one.lock in by_lock and one.cluster in clusters
    ]
    caught = [
        _named(name, clusters[0], "control", {"lock": name, **_REQUIRED, **options})
        for name, options in CONTROLS.items()
        if not quick or name in QUICK_CONTROLS
    ]
    scripts = {} if quick else SCRIPTED_CONTROLS
    scripted = [_named(name, clusters[0], "control", {}, script=script) for name, script in scripts.items()]
    left_s = budget_s - len(again) * _lasts_s(load_s) - len(caught) * _lasts_s(control_s)
    pairs = [(subject, cluster) for subject in subjects for cluster in clusters]
    turns, rest = divmod(max(int(left_s / _lasts_s(load_s)), 1), len(pairs))
    begin = first_seed % len(pairs)
    own = [_cell(*pair) for pair in (pairs if turns else [*pairs[begin:], *pairs[:begin]][:rest])]
    parts = (
        Part(title="What failed the night before", cells=tuple(again), seeds=1, options=_options(load_s)),
        Part(title="Controls", cells=tuple(caught), seeds=1, options=_options(control_s)),
        Part(title="Controls, by experiment", cells=tuple(scripted), seeds=1),
        Part(title="Standard faults", cells=tuple(own), seeds=max(turns, 1), options=_options(load_s)),
    )
    return check(
        Grid(
            name="nightly",
            title="Tonight’s runs",
            question="What do the standard faults show of each lock, and what is new since the night before?",
            parts=tuple(part for part in parts if part.cells),
            first_seed=first_seed,
        )
    )


def _lasts_s(load_s: float) -> float:
    return load_s + _RECOVERY_S + _BESIDES_S


def _options(load_s: int) -> dict[str, str]:
    return {"duration": f"{load_s}s", "recovery": f"{_RECOVERY_S}s"}


def _cell(subject: Subject, cluster: str, seed: int | None = None) -> Cell:
    kind: Kind = "library" if subject.role == "library" else "correct"
    options = {"lock": subject.lock, "nodes": str(subject.nodes), "clients": "5", "nemesis": "standard"} | _REQUIRED
    return _named(subject.lock, cluster, kind, options, seed)


def _named(
    lock: str, cluster: str, kind: Kind, options: Mapping[str, str], seed: int | None = None, script: str = ""
) -> Cell:
    at = {"lock": lock, "cluster": cluster, "kind": kind}
    name = f"{lock} · {cluster}" + ("" if seed is None else f" · seed {seed} again")
    return Cell(name, {**options, "cluster": cluster}, at, script, seed)
