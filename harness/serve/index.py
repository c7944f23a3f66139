"""What the list shows of each run, kept until the run's folder changes.

A folder's own time of change says that a file of it was written anew (files are renamed into place), so listing runs
that are known costs one look at each. What is known is kept in the user's cache folder, from one start to the next.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from fencepost.errors import UsageError
from fencepost.files import read_json, write_whole
from fencepost.text import printable
from harness.report.listing import listed, run_folders
from harness.store.run_folder import RunFolder
from harness.verdict import VERDICT_SCHEMA

_SCHEMA: Final = (1, VERDICT_SCHEMA)
"""Of the file: what is kept, and which verdicts it was made from."""
_SETTLED_NS: Final = 2_000_000_000
"""A folder that changed within this time is read anew the next time: file systems tell times in ticks, and a second
change within the same tick would not be seen."""
JUDGED: Final = ("valid", "violation", "unknown")
"""The words of `RunSummary.verdict` that are verdicts."""


class RunSummary(msgspec.Struct, frozen=True):
    """A row of the list. `when`: the run's start, in UTC. `verdict`: its word, or one of those of
    `harness.report.listing`. `says`: the first finding that decides, or why the verdict is unknown; empty if there is
    nothing to say. What cannot be read is empty."""

    name: str
    when: datetime
    verdict: str
    lock: str = ""
    nemesis: str = ""
    workload: str = ""
    seed: str = ""
    says: str = ""

    def has(self, text: str) -> bool:
        """Whether a field has this text in it, in any case."""
        fields = (self.name, self.lock, self.nemesis, self.workload, self.seed, self.verdict, self.says)
        return text.casefold() in "\n".join(fields).casefold()


class _Found(msgspec.Struct):
    text: str
    breaks: tuple[str, ...] = ()


class _Judged(msgspec.Struct):
    """As much of a verdict as the list shows."""

    verdict: str
    require: str
    findings: tuple[_Found, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        if self.verdict == "unknown":
            return "; ".join(self.unknown)
        return next((found.text for found in self.findings if self.require in found.breaks), "")


class _Kept(msgspec.Struct):
    """What is known of each run, by its name: when its folder had changed, in ns, and the summary."""

    schema: tuple[int, int] = _SCHEMA
    runs: dict[str, tuple[int, RunSummary]] = {}


class Index:
    """The runs in a folder. `kept`: a file to keep what is known. One thread at a time may ask."""

    def __init__(self, results: Path, kept: Path) -> None:
        self.results = results
        self._file = kept
        self._known = _read(kept)

    def runs(self) -> Sequence[RunSummary]:
        """All runs, newest first. Raises UsageError if the folder cannot be read."""
        settled_ns = time.time_ns() - _SETTLED_NS
        read = {path.name: self._of(path) for path in run_folders(self.results)}
        known = {name: each for name, each in read.items() if each[0] < settled_ns}
        if known != self._known:
            self._known = known
            with suppress(OSError):  # the next start takes longer, and nothing is lost
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._file, msgspec.json.encode(_Kept(runs=known)))
        return sorted((summary for _, summary in read.values()), key=lambda run: (run.when, run.name), reverse=True)

    def _of(self, path: Path) -> tuple[int, RunSummary]:
        changed_ns = path.lstat().st_mtime_ns
        before = self._known.get(path.name)
        return before if before is not None and before[0] == changed_ns else (changed_ns, summary_of(path))


def _read(kept: Path) -> dict[str, tuple[int, RunSummary]]:
    try:
        known = read_json(kept, _Kept)
    except UsageError:  # there is none, or it is from another version
        return {}
    return known.runs if known.schema == _SCHEMA else {}


def kept_file(results: Path) -> Path:
    """Where the index of this folder of runs is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fencepost")
    return cache / f"runs-{hashlib.sha256(os.fsencode(results.absolute())).hexdigest()[:16]}.json"


def summary_of(path: Path) -> RunSummary:
    """Whatever is wrong with one folder does not keep the others from being listed."""
    run, folder = listed(path), RunFolder(path)
    try:
        config = folder.read_config()
        judged = folder.read_verdict(_Judged)
    except UsageError:
        return RunSummary(run.name, run.when, run.verdict)
    says = judged.says if judged is not None and judged.verdict == run.verdict else ""
    return RunSummary(
        run.name,
        run.when,
        run.verdict,
        printable(config.lock_name),
        printable(config.nemesis),
        printable(config.workload),
        str(config.seed),
        printable(says),
    )
