"""What the list shows of each run, kept until the run's folder changes.

A folder's own time of change says that a file of it was written anew (files are renamed into place), so listing runs
that are known costs one look at each. What is known is kept in the user's cache folder, from one start to the next.
Reading a run takes milliseconds, so of thousands that are not known the newest are read first, and the others while the
first page is being looked at.
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
from harness.report.listing import begun_at, listed, run_folders
from harness.verdict import VERDICT_SCHEMA

_SCHEMA: Final = (2, VERDICT_SCHEMA)
"""Of the file: what is kept, and which verdicts it was made from."""
_SETTLED_NS: Final = 2_000_000_000
"""A folder that changed within this time is read anew the next time: file systems tell times in ticks, and a second
change within the same tick would not be seen."""
JUDGED: Final = ("valid", "violation", "unknown")
"""The words of `RunSummary.verdict` that are verdicts."""
UNREAD: Final = "not read yet"
"""What stands in the place of the verdict of a run of which no more is known than its name."""


class RunSummary(msgspec.Struct, frozen=True):
    """A row of the list. `when`: the run's start, in UTC. `verdict`: its word, or one of those of
    `harness.report.listing`, or `UNREAD`. `says`: as in
    `harness.report.listing`. What cannot be read is empty."""

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


class _KnownRuns(msgspec.Struct):
    """What is known of each run, by its name: when its folder had changed, in ns, and the summary."""

    schema: tuple[int, int] = _SCHEMA
    runs: dict[str, tuple[int, RunSummary]] = {}


class Index:
    """The runs in a folder. `kept`: a file to keep what is known. One thread at a time may ask."""

    def __init__(self, results: Path, kept: Path) -> None:
        self.results = results
        self._file = kept
        self._known = _read(kept)
        self._unread = list[Path]()

    def runs(self, most: int | None = None) -> Sequence[RunSummary]:
        """All runs, newest first. `most`: how many may be read for this answer, the newest of the unread ones;
        the others are `UNREAD`. Raises UsageError if the folder cannot be read."""
        found = sorted(run_folders(self.results), key=lambda path: (begun_at(path), path.name), reverse=True)
        before, self._known, self._unread = self._known, {}, []
        summaries = []
        for path in found:
            known = before.get(path.name)
            if known is not None and known[0] == _changed_ns(path):
                self._known[path.name] = known
                summaries.append(known[1])
            elif most is None or most > 0:
                summaries += self._read_run(path)
                most = None if most is None else most - 1
            else:
                self._unread.append(path)
                summaries.append(RunSummary(path.name, begun_at(path), UNREAD))
        if self._known != before and not self._unread:
            self._keep()
        return summaries

    def read_on(self, most: int) -> bool:
        """Read the newest of the runs that the last answer left unread; whether there are more."""
        now, self._unread = self._unread[:most], self._unread[most:]
        for path in now:
            self._read_run(path)
        if now and not self._unread:
            self._keep()
        return bool(self._unread)

    def _read_run(self, path: Path) -> Sequence[RunSummary]:
        """Its summary; nothing if the run has just been removed."""
        changed_ns, settled_ns = _changed_ns(path), time.time_ns() - _SETTLED_NS
        if changed_ns is None:
            return ()
        summary = summary_of(path)
        if changed_ns < settled_ns:
            self._known[path.name] = changed_ns, summary
        return (summary,)

    def _keep(self) -> None:
        with suppress(OSError):  # the next start takes longer, and nothing is lost
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, msgspec.json.encode(_KnownRuns(runs=self._known)))


def _changed_ns(path: Path) -> int | None:
    """When a file of the folder was last written anew, or what its verdict is known by was changed; None if the folder
    is gone."""
    try:
        at_ns = path.lstat().st_mtime_ns
    except OSError:
        return None
    for name in ("verdict.json", "manifest.json"):
        with suppress(OSError):
            at_ns = max(at_ns, (path / name).stat().st_mtime_ns)
    return at_ns


def _read(kept: Path) -> dict[str, tuple[int, RunSummary]]:
    try:
        known = read_json(kept, _KnownRuns)
    except UsageError:  # there is none, or it is from another version
        return {}
    return known.runs if known.schema == _SCHEMA else {}


def kept_file(results: Path) -> Path:
    """Where the index of this folder of runs is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fencepost")
    return cache / f"runs-{hashlib.sha256(os.fsencode(results.absolute())).hexdigest()[:16]}.json"


def summary_of(path: Path) -> RunSummary:
    """Whatever is wrong with one folder does not keep the others from being listed."""
    run = listed(path)
    config = run.config
    if config is None:
        return RunSummary(run.name, run.when, run.verdict)
    return RunSummary(
        run.name,
        run.when,
        run.verdict,
        printable(config.lock_name),
        printable(config.nemesis),
        printable(config.workload),
        str(config.seed),
        printable(run.says),
    )
