"""Is a damaged run ever believed? `python -m tests.tampered [--count 1000] [--runs FOLDER] [--seed 1]`

Records a few short runs (or takes those in FOLDER), one of which is killed, damages copies of them in every way of
`tests.judge.tampering` and `tests.judge.wire_tampering`, and lets `fencepost analyze` judge each. A fifth of the copies
are whole before that, so their manifests vouch for them; these must be refused in one line that names the file. Another
fifth get a new manifest after the damage, by which it is hidden: the files must still agree with each other, so
whatever happened may turn the verdict into unknown, or blame the record, but not the lock, nor make a violation valid,
and none may end a checker. Of another fifth, verdict.json is edited: then `list` and `explain` must say that it does
not fit the record. The others look as a killed harness leaves them. Those that are sealed must be refused as well, or
judged as before where the damage is not to what was sealed. The rest may be refused or unknown, never valid, and a
violation only if they were one before. A digit that became another one cannot be noticed there, but whatever verdict
`analyze` gives, it must say that nothing vouches for the record.

Prints how often each damage had which outcome, and ends with 1 if one was not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from cluster.polling import becomes_true
from fencepost.errors import UsageError
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from harness.store.seal import Seal
from harness.store.wire import CONNECTIONS, REQUESTS
from harness.store.wire_files import EVENTS
from harness.verdict import Finding
from tests.fuzz.command import outcome
from tests.harness import runs
from tests.judge import tampering, wire_tampering

RECORDED: Final = (
    ("--nemesis", "crash", "--lock", "redlock"),
    ("--nemesis", "partition+pause", "--lock", "control-quorum-of-two", "--duration", "6s"),
    ("--nemesis", "pause", "--lock", "semaphore", "--workload", "semaphore", "--permits", "2"),
    ("--nemesis", "latency", "--lock", "redlock", "--extend", "2", "--tasks", "2"),
)
"""What makes a correct run, a violation, one with several permits, and one with several threads in a client."""

_RECORDED_BYTES: Final = 100_000
"""Of what went over the links, before a run is killed."""
OTHERS: Final[list[Path]] = []
"""The runs whose tables of the links may be put into others."""

NAMES: Final = {0: "valid", 1: "violation", 2: "unknown", 254: "refused", 255: "failed"}
VERDICTS: Final = ("valid", "violation", "unknown")
WHOLE, RESEALED, JUDGED, SEALED, UNSEALED = STATES = "whole", "resealed", "judged", "sealed", "not sealed"
UNNOTICED: Final = frozenset({"flip a byte", "an extreme number"})
"""A number may have become another one that could have been there."""


def record(place: Path) -> list[Path]:
    """The folders of short runs that were made now."""
    for number, arguments in enumerate(RECORDED):
        (folder := place / f"{number}").mkdir(parents=True)
        code, out, err = runs.fencepost(folder, *runs.short_run(*arguments))
        if code not in (0, 1, 2):
            raise AssertionError(out + err)
    return [*(runs.only_run(folder) for folder in sorted(place.iterdir())), record_killed(place / "killed")]


def record_killed(place: Path) -> Path:
    """The folder of a run that is killed when it has recorded enough; it still has what its proxy wrote."""
    place.mkdir()
    process = runs.start(place, *runs.short_run("--nemesis", "partition", "--duration", "60s"))
    try:
        wire = f"results/runs/*/wire/{EVENTS}"
        if not becomes_true(lambda: any(log.stat().st_size > _RECORDED_BYTES for log in place.glob(wire)), within_s=60):
            raise AssertionError("the run that is to be killed recorded nothing")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return runs.only_run(place)


def another_runs_links(folder: Path, random: Random) -> Path:
    """Both tables of another run, which fit each other."""
    other = random.choice([run for run in OTHERS if run.name != folder.name])
    for name in (REQUESTS, CONNECTIONS):
        if not (folder / name).exists():
            raise FileNotFoundError(name)
        shutil.copy(other / name, folder / name)
    return folder / CONNECTIONS


KINDS: Final = (*tampering.KINDS, *wire_tampering.KINDS, another_runs_links)


def states_of(run: Path) -> tuple[str, ...]:
    """How copies of it may look before they are damaged."""
    return STATES if (run / "manifest.json").exists() else (SEALED, UNSEALED)


def as_killed(run: Path) -> None:
    """No manifest, no last read, no end of the run. (Its proxy's own files cannot be made again.)"""
    if not (run / "manifest.json").exists():
        return
    for name in ("manifest.json", "final.json", REQUESTS, CONNECTIONS):
        (run / name).unlink()
    timeline = json.loads((run / "timeline.json").read_text())
    (run / "timeline.json").write_text(json.dumps({"start_ns": timeline["start_ns"]}))


def copied(run: Path, place: Path, state: str) -> Path:
    copy = place / "results" / "runs" / run.name
    shutil.rmtree(copy, ignore_errors=True)
    made = "verdict.json", "history.parquet", "report.html", "sealed.json"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns(*made))
    if state in (SEALED, UNSEALED):
        as_killed(copy)
    if state == SEALED:
        Seal(RunFolder(copy)).renew()
    return copy


def judged(run: Path, place: Path) -> tuple[int, str]:
    """The exit code, and what was said. Raises AssertionError for a traceback or an error of several lines."""
    code, said, error = outcome("analyze", str(run), folder=place)
    return code, " ".join((said + error).split())


def damage(run: Path, seed: int) -> tuple[str, Path]:
    """As `tamper`. Another file is taken instead of one that a killed harness does not leave; another damage, if the
    run has no file for it."""
    for again in range(seed, seed + 10 * len(KINDS), len(KINDS)):
        with suppress(FileNotFoundError, ValueError, IndexError):
            return tampering.tamper(run, again, KINDS)
    return damage(run, seed + 1)


def reseal(run: Path) -> None:
    """A new manifest that vouches for whatever is there; the old one, where that cannot be read."""
    with suppress(UsageError):
        write_manifest(RunFolder(run))


def try_verdict(run: Path, place: Path, seed: int) -> tuple[str, str, str | None]:
    """Edit what a run was judged to be, and list it."""
    random = Random(seed)
    copy = copied(run, place, JUDGED)
    code, _ = judged(copy, place)
    path, word = copy / "verdict.json", random.choice([word for word in VERDICTS if word != NAMES[code]])
    before = path.read_text()
    how, edited = random.choice(
        [
            ("another word", before.replace(f'"verdict": "{NAMES[code]}"', f'"verdict": "{word}"')),
            ("another number", re.sub(r"(\d)(?=[,\n])(?!.*\n.*schema_version)", _other_digit, before, count=1)),
            ("another form", json.dumps(json.loads(before) | {"verdict": word})),
            ("no digest", re.sub(r'"fits": "\w+",', "", before).replace(NAMES[code], word)),
        ]
    )
    assert edited != before, how
    path.write_text(edited)
    listed, said, _ = outcome("list", "--results", str(copy.parent), folder=place)
    explained, why, _ = outcome("explain", str(copy), folder=place)
    unfit = "verdict.json does not fit the record"
    if listed or explained or unfit not in " ".join(said.split()) or unfit not in " ".join(why.split()):
        return how, "believed", f"the edited verdict is listed or explained: {said} {why[:200]}"
    return how, "unfit", None


def convicts_the_record(run: Path) -> bool:
    """Whether what breaks a promise is that the resource's record contradicts itself, and nothing of it is blamed
    on the lock or a client."""
    found = msgspec.convert(json.loads((run / "verdict.json").read_text())["findings"], list[Finding])
    return all(finding.blame in ("resource", "harness") for finding in found if finding.breaks)


def _other_digit(found: re.Match[str]) -> str:
    return str((int(found[1]) + 1) % 10)


def try_one(run: Path, place: Path, seed: int, state: str, untouched: int) -> tuple[str, str, str | None]:
    """How a copy was damaged, what came of it, and what is wrong with that."""
    if state == JUDGED:
        return try_verdict(run, place, seed)
    copy = copied(run, place, state)
    how, file = damage(copy, seed)
    if state == RESEALED:
        reseal(copy)
    try:
        code, said = judged(copy, place)
    except AssertionError as wrong:
        return how, "failed", " ".join(str(wrong).split())[:300]
    wrong = None
    may_be = {
        WHOLE: {254},
        RESEALED: {254, 2, untouched} | ({0, 1} if how in UNNOTICED else set()),
        SEALED: {254, untouched},
        UNSEALED: {254, 2, untouched} | ({1} if how == "flip a byte" else set()),
    }
    if state == RESEALED and code == 1 and convicts_the_record(copy):
        return how, "the record is at fault", None
    if code not in may_be[state] or (how == "flip a byte" and state == SEALED and code != 254):
        wrong = f"{NAMES[untouched]} became {NAMES[code]}"
    elif code != 254 and state != RESEALED and "may go unnoticed" not in said:
        wrong = f"{NAMES[untouched]} became {NAMES[code]} without a word of doubt: {said}"
    elif code == 254 and state == WHOLE and file.name not in said and not how.startswith("swap "):
        wrong = f"does not name {file.name}: {said}"
    return how, NAMES[code], wrong


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="damaged copies in all")
    parser.add_argument("--runs", type=Path, help="a folder with recorded runs (default: record some now)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fencepost-tampered-") as temporary:
        place = Path(temporary)
        found = record(place / "made") if given.runs is None else sorted(
            path.parent
            for name in ("manifest.json", "wire")
            for path in given.runs.resolve().glob(f"*/{name}")
            if not path.parent.is_symlink()
        )  # fmt: skip
        OTHERS.extend(run for run in found if (run / CONNECTIONS).exists())
        untouched = {
            (run, state): judged(copied(run, place, state), place)[0] for run in found for state in states_of(run)
        }
        for (run, state), code in untouched.items():
            _say(f"{run.name}, {state}: {NAMES[code]}")
        seen: Counter[tuple[str, str, str]] = Counter()
        bad = 0
        for number in range(given.count):
            (run, state), before = list(untouched.items())[number % len(untouched)]
            # Each run meets each damage: the damage follows the seed, and moves on once all had it.
            how, what, wrong = try_one(run, place, given.seed * given.count + number // len(untouched), state, before)
            seen[state, how, what] += 1
            if wrong:
                bad += 1
                _say(f"{number}: {run.name}, {state}, {how}: {wrong}")
    for (state, how, what), times in sorted(seen.items()):
        _say(f"{times:5} {state:10} {how:45} {what}")
    _say(f"{given.count} damaged runs, {bad} of them believed, changed in silence or refused without the file's name")
    return 1 if bad else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
