"""`make same-verdicts BASE=<revision> RUNS=<folder>`: do two revisions of fencepost give the same verdicts?

Every run folder in RUNS is judged by BASE, checked out into a temporary folder, and by this tree, each in a process of
its own with the same interpreter. Only the public API is used (`fencepost.load(path).verdict`), on a folder of links
that leaves out `verdict.json`, so that each revision judges for itself. Some runs are also judged with a part missing
or damaged, because a verdict on a run that was cut short must not move either.

Compared are the number of reasons for `unknown`, how each promise came out, each finding's kind, blame, promise, count
and the numbers in its examples, and all figures. The word and the promises are compared unless BASE knows no promises.
A figure that is None is the same as one that is missing. A run that one revision refuses must be refused by the other
one with the same exit code. Texts may change.

Exit code: 0 if there is no difference, 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent

RENAMED_CHECKERS: Final[Mapping[str, str]] = {
    "early_loss": "premature_loss",
    "kept_out": "starvation",
    "keys_left": "undeleted_keys",
    "others_keys": "ownership",
    "refused_alone": "uncontended_refusals",
    "unplanned": "unplanned_failures",
}
"""What BASE calls a checker: what this tree calls it. Empty once BASE is newer than the last renaming."""

RENAMED_FIGURES: Final[Mapping[tuple[str, str], str]] = {}
"""This tree's name of a checker and BASE's name of one of its figures: this tree's name of that figure."""

SPLIT_KINDS: Final = {
    "lost-lease-extended": "late-extension",
    "prolonged-another-clients-key": "changed-another-clients-key",
}
"""This tree's kind of a finding: what a BASE without promises calls it."""

NOT_JUDGED_BY: Final = ("verdict.json", "report.html")
USAGE_ERROR: Final = 254

WORKER: Final = """
import sys
from pathlib import Path

import msgspec

import fencepost
from fencepost.errors import FencepostError

home = Path(fencepost.__file__).resolve().parent.parent
assert home == Path(sys.argv[1]).resolve(), f"{home} was imported instead of {sys.argv[1]}"
for line in sys.stdin:
    path = line.rstrip("\\n")
    try:
        answer = {"verdict": fencepost.load(path).verdict}
    except FencepostError as error:
        answer = {"refused": error.exit_code, "says": str(error)}
    except Exception as error:
        answer = {"crashed": repr(error)}
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\\n")
    sys.stdout.flush()
"""
"""Judges the folders named on standard input; one line of JSON each. It runs in either revision."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", help="the revision to compare this tree with")
    parser.add_argument("runs", type=Path, help="a folder of run folders")
    parser.add_argument("--damaged", type=int, default=3, help="how many runs get each kind of damage (default: 3)")
    asked = parser.parse_args()
    runs = sorted(path.parent for path in asked.runs.glob("*/config.json") if not path.parent.is_symlink())
    if not runs:
        parser.error(f"there is no run folder in {asked.runs}")
    with tempfile.TemporaryDirectory(prefix="fencepost-same-") as temporary:
        place = Path(temporary)
        folders = list(shadows(runs, place / "runs", asked.damaged))
        base = place / "base"
        _git("worktree", "add", "--quiet", "--detach", str(base), asked.base)
        try:
            before, after = judged([base, ROOT], folders)
        finally:
            _git("worktree", "remove", "--force", str(base))
    differing = refused = 0
    for folder, was, now in zip(folders, before, after, strict=True):
        found = list(differences(was, now))
        differing += bool(found)
        refused += "refused" in now
        for text in found:
            print(f"{folder.name}: {text}")  # noqa: T201
    damaged = len(folders) - len(runs)
    print(  # noqa: T201
        f"{len(runs)} runs and {damaged} damaged ones ({refused} refused), judged by {asked.base} and by this tree: "
        f"{f'{differing} differ' if differing else 'no difference'}"
    )
    return 1 if differing else 0


def shadows(runs: Sequence[Path], place: Path, damaged: int) -> Iterator[Path]:
    """Each run as a folder of links, then some of them with each kind of damage."""
    for run in runs:
        yield shadow(run, place / run.name)
    for damage in DAMAGE:
        # Not always the same runs: each kind begins at another one.
        first = 7 * DAMAGE.index(damage) % len(runs)
        able = [run for run in (*runs[first:], *runs[:first]) if damage is not _no_run or run is runs[first]]
        done = 0
        for run in able:
            copy = shadow(run, place / f"{run.name}-{damage.__name__.strip('_')}")
            if damage(copy):
                done += 1
                yield copy
            if done == damaged:
                break


def shadow(run: Path, copy: Path) -> Path:
    """The run's folder with a link for each of its files, except for what was judged."""
    copy.mkdir(parents=True)
    for path in run.iterdir():
        if path.is_dir():
            (copy / path.name).mkdir()
            for inner in path.iterdir():
                (copy / path.name / inner.name).symlink_to(inner.resolve())
        elif path.name not in NOT_JUDGED_BY:
            (copy / path.name).symlink_to(path.resolve())
    return copy


def _no_timeline(run: Path) -> bool:
    return _remove(run / "timeline.json")


def _no_last_read(run: Path) -> bool:
    return _remove(run / "final.json")


def _no_witness(run: Path) -> bool:
    return _remove(run / "nodes.jsonl")


def _no_schedule(run: Path) -> bool:
    return _remove(run / "schedule.json")


def _no_writes(run: Path) -> bool:
    return _remove(run / "resource.jsonl")


def _no_client_logs(run: Path) -> bool:
    """No operation is left: history.parquet is no record."""
    for log in (run / "clients").iterdir():
        log.unlink()
    return True


def _no_first_life(run: Path) -> bool:
    return _remove(min((run / "clients").iterdir()))


def _no_client_ends(run: Path) -> bool:
    return _remove(run / "client-ends.jsonl")


def _no_environment(run: Path) -> bool:
    return _remove(run / "environment.json")


def _half_a_last_line(run: Path) -> bool:
    return _rewrite(max((run / "clients").iterdir()), lambda text: text[:-20])


def _half_a_last_event(run: Path) -> bool:
    return _rewrite(run / "nodes.jsonl", lambda text: text[:-20])


def _garbage_in_the_middle(run: Path) -> bool:
    return _rewrite(max((run / "clients").iterdir()), _with_garbage)


def _garbage_among_the_faults(run: Path) -> bool:
    return _rewrite(run / "nemesis.jsonl", _with_garbage)


def _no_run(run: Path) -> bool:
    return _remove(run / "config.json")


DAMAGE: Final[tuple[Callable[[Path], bool], ...]] = (
    _no_timeline,
    _no_last_read,
    _no_witness,
    _no_schedule,
    _no_writes,
    _no_client_logs,
    _no_first_life,
    _no_client_ends,
    _no_environment,
    _half_a_last_line,
    _half_a_last_event,
    _garbage_in_the_middle,
    _garbage_among_the_faults,
    _no_run,
)
"""Each damages a shadow and says whether there was anything to damage."""


def _remove(path: Path) -> bool:
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> bool:
    if not path.exists() or len(text := path.read_bytes()) < 200:
        return False
    path.unlink()  # the link; what it points to stays as it is
    path.write_bytes(change(text))
    return True


def _with_garbage(text: bytes) -> bytes:
    middle = text.index(b"\n", len(text) // 2) + 1
    return text[:middle] + b"this is no JSON\n" + text[middle:]


def judged(trees: Sequence[Path], folders: Sequence[Path]) -> list[list[dict[str, Any]]]:
    """Each tree's answers, in the order of the folders. The trees work side by side."""
    names = "".join(f"{folder}\n" for folder in folders)
    with contextlib.ExitStack() as opened:
        workers = []
        for tree in trees:
            asked, told = (opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
            asked.write(names)
            asked.seek(0)
            environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
            command = [sys.executable, "-c", WORKER, str(tree)]
            workers.append((told, subprocess.Popen(command, cwd=tree, env=environment, stdin=asked, stdout=told)))
        answers = []
        for tree, (told, worker) in zip(trees, workers, strict=True):
            worker.wait()
            told.seek(0)
            answers.append([json.loads(line) for line in told])
            if len(answers[-1]) != len(folders):
                sys.exit(f"{tree} judged {len(answers[-1])} of {len(folders)} folders; its error is above")
    return answers


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two answers, in words."""
    for which, answer in (("BASE", before), ("this tree", after)):
        if "crashed" in answer:
            yield f"{which} crashed: {answer['crashed']}"
        elif answer.get("refused", USAGE_ERROR) != USAGE_ERROR:
            yield f"{which} ended with {answer['refused']}, not {USAGE_ERROR}: {answer['says']}"
    if "verdict" not in before or "verdict" not in after:
        if before.keys() != after.keys():
            yield f"only one of the two judges it: {_in_short(before)} | {_in_short(after)}"
        return
    if "promises" not in before["verdict"]:
        after = {**after, "verdict": _without_promises(after["verdict"], before["verdict"]["verdict"])}
    was, now = comparable(before["verdict"], RENAMED_CHECKERS, RENAMED_FIGURES), comparable(after["verdict"])
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            yield f"{name}: {was.get(name, 'missing')} | {now.get(name, 'missing')}"


def _without_promises(verdict: Mapping[str, Any], word: str) -> dict[str, Any]:
    """What a revision that knows no promises can be compared with. Two kinds have been told apart since."""
    findings = [
        {**finding, "kind": SPLIT_KINDS.get(finding["kind"], finding["kind"]), "promise": None}
        for finding in verdict["findings"]
    ]
    return {**verdict, "verdict": word, "findings": findings, "promises": ()}


def comparable(
    verdict: Mapping[str, Any],
    checkers: Mapping[str, str] | None = None,
    figures: Mapping[tuple[str, str], str] | None = None,
) -> dict[str, object]:
    """What must not move, by a name that says where it stands. `checkers`, `figures`: what was renamed since."""
    found: dict[str, object] = {"verdict": verdict["verdict"], "reasons for unknown": len(verdict["unknown"])}
    for each in verdict.get("promises", ()):
        found[f"promise {each['promise']}"] = (each["outcome"], each["decides"])
    numbered: dict[str, int] = {}
    for finding in verdict["findings"]:
        kind = f"{finding['kind']} ({finding['blame']})"
        numbered[kind] = numbered.get(kind, 0) + 1
        name = f"finding {kind} {numbered[kind]}"
        found[f"{name}: promise"] = finding.get("promise")
        found[f"{name}: count"] = finding.get("count", 1)
        for path, value in leaves(finding.get("examples", ()), "example"):
            if isinstance(value, int | float):
                found[f"{name}: {path}"] = value
    for old, own in verdict["figures"].items():
        checker = (checkers or {}).get(old, old)
        for path, value in leaves(own, ""):
            first, *rest = path.lstrip(".").split(".")
            first = (figures or {}).get((checker, first), first)
            found[f"figures of {checker}: {'.'.join([first, *rest])}"] = value
    return found


def leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Everything in a tree that is not None, with where it stands."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{number}")
    elif value is not None:
        yield path, value


def _in_short(answer: Mapping[str, Any]) -> str:
    return str(answer["verdict"]["verdict"] if "verdict" in answer else answer.get("says") or answer.get("crashed"))


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
