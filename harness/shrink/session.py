"""What `fencepost shrink` does around the search: check, run, show progress, write the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import msgspec
from rich.console import Console

from cluster.lifetime import RunState
from fencepost.errors import UsageError
from fencepost.files import checked_path, kind_of, write_whole
from fencepost.text import milliseconds, plural
from harness.options import replay_command
from harness.replay.replay import SourceRun
from harness.replay.violation import Kind, Moment, choose_kind, moments_of
from harness.run.interruption import Interruption
from harness.run.prepare import prepare, remove_leftovers
from harness.run.sandbox_parent import more_runs_follow
from harness.run.scheduled import Prepared
from harness.session import judge_and_draw, say_what_is_missing, setup_in_words
from harness.shrink.edits import until
from harness.shrink.play import TrialPlayer
from harness.shrink.search import Smallest, search
from harness.shrink.trials import Reason, Tally, Trials, Try
from harness.shrink.wording import not_again, remained, size, tried
from harness.store.run_folder import RunFolder
from nemesis.schedule import Schedule

_NEEDS_RECOVERY: Final = "liveness"
"""The checker that judges the time after everything is healed; the others do without that time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for. `kind`: None is the most severe; `output`: None is `shrunk.json` in the run's folder;
    `cluster`: None is the recorded run's."""

    repeats: int = 3
    needed: int = 2
    limit_s: float = 600
    kind: str | None = None
    output: Path | None = None
    cluster: str | None = None


def shrink(source: SourceRun, wanted: Wanted, results: Path, out: Console) -> int:
    """Find the smallest schedule that still shows the run's violation, write it, and print what remained.

    Returns 0 if the confirmation runs showed the violation; 2 if it did not come again, or if the search was stopped
    before it was confirmed. Raises UsageError for a run without a violation or without a schedule.
    """
    if (script := source.folder.read_experiment()) is not None:
        raise UsageError(
            f"{source.folder.path} ran the experiment {script['name']!r}: its faults are steps of a script, not a "
            "schedule; shorten the script itself"
        )
    kind = choose_kind(source.verdict, wanted.kind)
    output = wanted.output or source.folder.path / "shrunk.json"
    _check_output(output)
    finding = kind.among(source.verdict)
    assert finding is not None
    moments = moments_of(source.recorded, finding)
    late = bool(moments) and moments[0].to_ms > source.config.duration_ms
    prepared = _prepared(source, output, wanted.cluster, recovery=kind.checker == _NEEDS_RECOVERY, late=late)
    remove_leftovers(out)
    words = f"looking for {kind} in {wanted.needed} of at most {plural(wanted.repeats, 'run')}, for at most"
    limit = milliseconds(1e3 * wanted.limit_s)
    out.print(f"{setup_in_words(prepared.setup)}, {size(prepared.schedule)}", soft_wrap=True)
    say_what_is_missing(prepared.setup, out)
    out.print(f"{words} {limit}", soft_wrap=True)
    trials, found, shown = _searched(prepared, kind, moments, wanted, results, out)

    asked = str(source.folder.path), str(kind), wanted.repeats, wanted.needed, wanted.limit_s
    record = _Record(*asked, found.ended, found.confirmed, tuple(trials.record))
    tries = _tries_of(output)
    write_whole(tries, msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    if found.schedule is None:
        out.print(not_again(found, trials, kind), soft_wrap=True)
        return 2
    write_whole(output, found.schedule.to_bytes())
    judged = judge_and_draw(shown) if shown is not None else None
    config = msgspec.structs.replace(prepared.setup.config, duration_ms=found.schedule.duration_ms)
    out.print(remained(found, len(prepared.schedule.faults), trials), soft_wrap=True)
    out.print(f"  schedule  {output}", soft_wrap=True)
    out.print(f"  tries     {tries}", soft_wrap=True)
    if shown is not None and judged is not None:
        again = kind.among(judged.verdict)
        out.print(f"  run       {shown.path}", soft_wrap=True)
        out.print(f"  shows     {again.text if again else kind}", soft_wrap=True)
    out.print(f"  play it   {replay_command(config, output)}", soft_wrap=True)
    return 0 if found.confirmed is not None and found.confirmed.seen >= wanted.needed else 2


def _prepared(source: SourceRun, output: Path, cluster: str | None, *, recovery: bool, late: bool) -> Prepared:
    """The run's schedule, with the time after the heal kept as `recovery`, made part of the load, or left out. `late`:
    the violation happened in that time."""
    load_ms, after_ms = int(source.config.duration_ms), int(source.config.recovery_ms)
    changed: dict[str, Any] = {"cluster": cluster} if cluster else {}
    prepared = prepare(source.scheduled(**changed, recovery_ms=after_ms if recovery else 0))
    # From here on the runs are made from the file with the result.
    setup = replace(prepared.setup, config=msgspec.structs.replace(prepared.setup.config, schedule=str(output)))
    played = until(msgspec.structs.replace(prepared.schedule, duration_ms=load_ms), load_ms)
    longer_ms = after_ms if late and not recovery else 0
    return Prepared(setup, msgspec.structs.replace(played, duration_ms=load_ms + longer_ms))


def _searched(
    prepared: Prepared, kind: Kind, moments: Sequence[Moment], wanted: Wanted, results: Path, out: Console
) -> tuple[Trials, Smallest, RunFolder | None]:
    """Search. Also returns the folder of the last run of the result, moved to `results`."""

    def left() -> str:
        return f"{milliseconds(1e3 * max(0, round(trials.ends_at - time.monotonic())))} left"

    def heading(schedule: Schedule, told: str) -> str:
        best = f"; best so far: {size(trials.best)}" if trials.best else ""
        return f"[{left()}] {told}: {size(schedule)}{best}"

    def told(line: Try) -> None:
        out.print(tried(line, len(trials.record), left()), soft_wrap=True)

    with (
        RunState.create(f"shrink-{time.time_ns()}") as state,
        Interruption().watch() as interruption,
        more_runs_follow(),
    ):
        player = TrialPlayer(
            prepared.setup, kind, state.path, heading, lambda: trials.best, lambda: bool(interruption), out
        )  # fmt: skip
        ends_at = time.monotonic() + wanted.limit_s
        trials = Trials(player, wanted.needed, wanted.repeats, ends_at, told=told)
        found = search(prepared.schedule, moments, trials)
        kept = player.showed.get(found.schedule.to_bytes()) if found.schedule else None
        return trials, found, kept.move_to(results) if kept else None


class _Record(msgspec.Struct, frozen=True):
    """The record of the search, stored next to the schedule. `confirmed`: how often the confirmation runs showed the
    violation; `ended`: why the search stopped early."""

    source: str
    kind: str
    repeats: int
    needed: int
    limit_s: float
    ended: Reason | None
    confirmed: Tally | None
    tries: tuple[Try, ...]
    schema_version: int = 1


def _tries_of(output: Path) -> Path:
    """The file beside the schedule with what was tried."""
    return output.with_suffix(".tries.json")


def _check_output(output: Path) -> None:
    """Raise UsageError for a file that cannot be written: before, not after, ten minutes of work."""
    if kind_of(output) not in (None, "file"):
        raise UsageError(f"--output {output} is no file; name another one")
    checked_path(str(_tries_of(output)))
    try:
        with TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise UsageError(f"{output} cannot be written ({error.strerror}); choose another file with --output") from None
