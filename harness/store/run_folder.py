"""The run folder: what a run leaves behind, written so that a reader never sees a half-written file.

    results/runs/20261121T082625.123456Z-fenced-counter-redlock-ng-partition-7/
      config.json        the RunConfig and a schema version; a folder without it is no run folder
      environment.json   versions, kernel, cores, git revision, the servers' effective CONFIG
      schedule.json      the planned faults; a scripted run has an experiment.json instead
      played.json        what was played, where an adaptive fault found its own moments
      timeline.json      the agreed moments
      nemesis.jsonl      FaultEvent, a line each     } appended to while the run is on,
      client-ends.jsonl  ClientEnd, a line each      } one write(2) a line: a crash costs
      resource.jsonl     Write, a line each          } at most half a line at the end
      nodes.jsonl        KeyEvent, a line each       } (many in one write)
      denied.jsonl       Denied, a line each: which requests nodes turned away; no file if they took all
      clients/c1.1.jsonl Op, a line each: client c1, its first life
      gaps/c1.1.jsonl    Gap, a line each: when that client did not run; no file if it always ran
      beats/c1.1.jsonl   Beats, a line each: that client's scheduling delay; harness.1: the process that makes the run
      wire/              what goes over the links, while the run is on; two tables take its place (`harness.store.wire`)
      requests.parquet   what each client asked of each server, when, and what it was answered
      connections.parquet the connections of the links
      final.json         the values at the last read
      sealed.json        what the files were a moment ago, while the run is on; a manifest.json takes its place
      history.parquet    the operations again, as columns: made from clients/, and never read instead of it
      verdict.json       the verdict, its schema version, and a digest that binds it to the record
      logs/              what servers, clients and libraries said

Whole files are written beside their place, synced and renamed. Whatever is missing because a run was cut short is
missing in the reading too (`Recorded` says how); what is there but cannot be understood is a UsageError. Reading a run
as tables is `harness.store.tables`; this module imports no table library, so that listing runs is quick.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from fencepost.errors import UsageError
from fencepost.files import beside, checked_path, decode_json, kind_of, on_disk, read_document, read_json
from fencepost.history import Beats, Denied, Gap, KeyEvent, Millis, Timeline, Value
from fencepost.options import check_bounds
from harness.config import RESULTS, RunConfig
from harness.store.append_log import AppendLog, read_lines
from harness.store.binding import bound, check_fits
from harness.verdict import VERDICT_SCHEMA, Verdict

SCHEMA_VERSION: Final = 2
"""Of config.json. From 2 on, a run that ended as planned has a manifest.json."""

_LOG_NAME: Final = re.compile(r"(?P<client>.+)\.(?P<life>[0-9]{1,5})\.jsonl")
_STAMP_BEGINS: Final = re.compile(r"\d{8}T")
_STAMP: Final = re.compile(r"(?P<second>\d{8}T\d{6})\.\d{6}Z")
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    schema_version: int


class _Planned(msgspec.Struct):
    """As much of a planned fault as its time needs."""

    id: str = ""
    at_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder. Made by `create` (to write) or `open` (to read)."""

    path: Path

    @classmethod
    def create(cls, results: Path, config: RunConfig) -> RunFolder:
        """A new folder in `results` for this run, with its config.json, and `latest` in that folder pointing to it.

        Two runs never share a folder, even if they start in the same microsecond. Raises BrokenEnvironmentError when
        it cannot be written, and UsageError if a file is in the way.
        """
        if file := next((path for path in (results, *results.parents) if kind_of(path) in ("file", "other")), None):
            raise UsageError(f"--results {results}: {file} is no folder; name one, which is made if need be")
        tail = "-".join(_safe(part) for part in (config.workload, config.lock_name, config.nemesis, str(config.seed)))
        with on_disk(results):
            results.mkdir(parents=True, exist_ok=True)
            while True:
                path = results / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{tail}"
                try:
                    path.mkdir(mode=0o700)  # what a lock prints of itself is not for other users
                except FileExistsError:
                    continue
                break
            folder = cls(path)
            for inner in (folder.clients, folder.gaps, folder.beats, folder.logs):
                inner.mkdir()
            folder._write_json("config.json", {"schema_version": SCHEMA_VERSION} | msgspec.to_builtins(config))
            folder._become_latest()
        return folder

    @classmethod
    def open(cls, path: Path | str, results: Path = RESULTS) -> RunFolder:
        """The folder at `path`; a bare name (`latest` too), or its beginning, is also looked for in `results`.

        Raises UsageError if there is none, if it is not a run's, or if a newer fencepost wrote it.
        """
        wanted = checked_path(str(path))
        if kind_of(wanted) is None:
            wanted = _named(wanted, results)
        if kind_of(wanted) != "folder":
            raise UsageError(f"there is no run folder {path}; `fencepost list` shows those in {results}")
        folder = cls(wanted.resolve())
        folder.read_config()
        return folder

    def move_to(self, results: Path) -> RunFolder:
        """The same run as one of those in `results`, and `latest` in that folder pointing to it. Raises
        BrokenEnvironmentError."""
        with on_disk(results):
            results.mkdir(parents=True, exist_ok=True)
            moved = RunFolder(Path(shutil.move(self.path, results / self.path.name)))
            moved._become_latest()
        return moved

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def clients(self) -> Path:
        return self.path / "clients"

    @property
    def gaps(self) -> Path:
        return self.path / "gaps"

    @property
    def beats(self) -> Path:
        return self.path / "beats"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def nodes(self) -> Path:
        """What the witness saw."""
        return self.path / "nodes.jsonl"

    @property
    def witness_words(self) -> Path:
        return self.logs / "witness.log"

    @property
    def wire(self) -> Path:
        """What went over the links, as the proxy records it while the run is on."""
        return self.path / "wire"

    def client_log(self, client: str, life: int) -> Path:
        return self.clients / f"{client}.{life}.jsonl"

    def gaps_log(self, client: str, life: int = 1) -> Path:
        """When this client, or the `PROXY`, did not run, whatever stopped it."""
        return self.gaps / f"{client}.{life}.jsonl"

    def beats_log(self, process: str, life: int = 1) -> Path:
        """The scheduling delay of this client, or of the `HARNESS`."""
        return self.beats / f"{process}.{life}.jsonl"

    def senders_log(self, client: str, life: int) -> Path:
        """Which of the tasks of this client sent what, while the run is on."""
        return self.wire / f"{client}.{life}.jsonl"

    def nemesis_log(self) -> AppendLog:
        return AppendLog(self.path / "nemesis.jsonl")

    def resource_log(self) -> AppendLog:
        return AppendLog(self.path / "resource.jsonl")

    def write_denied(self, denied: Sequence[Denied]) -> None:
        with AppendLog(self.path / "denied.jsonl") as log:
            log.extend(denied)

    def client_ends_log(self) -> AppendLog:
        return AppendLog(self.path / "client-ends.jsonl")

    def write_environment(self, environment: Mapping[str, object]) -> None:
        self._write_json("environment.json", environment)

    def write_schedule(self, schedule: object) -> None:
        """`schedule`: the text of the file, or a JSON value: a list of faults, or an object with a list `faults`."""
        self._write_json("schedule.json", schedule)

    def write_played(self, schedule: str) -> None:
        """`schedule`: the text of an ordinary schedule."""
        self._write_json("played.json", schedule)

    def write_experiment(self, experiment: Mapping[str, object]) -> None:
        """What a scripted run set out to show, and how."""
        self._write_json("experiment.json", experiment)

    def write_timeline(self, timeline: Timeline) -> None:
        self._write_json("timeline.json", timeline)

    def write_final(self, values: Mapping[str, int]) -> None:
        """The values at the last read, by key. Written after resource.jsonl: its presence says that that is whole."""
        self._write_json("final.json", values)

    def write_manifest(self, manifest: msgspec.Struct) -> None:
        """See `harness.store.manifest`."""
        self._write_json("manifest.json", manifest)

    def write_failure(self, error: str) -> None:
        """What broke, if the run did not end as planned."""
        self._write_json("failure.json", {"error": error})

    def write_verdict(self, verdict: Verdict) -> None:
        """Bound to the record as it is now (`harness.store.binding`)."""
        self._write_json("verdict.json", bound(_text(verdict), self.path).decode())

    def read_config(self) -> RunConfig:
        """Raises UsageError if there is none, if it cannot be understood, or if a newer fencepost wrote it."""
        if not self._has("config.json"):
            raise UsageError(f"{self.path} is not a run folder: it has no config.json")
        path, document = self.path / "config.json", self._read_versioned("config.json", SCHEMA_VERSION)[1]
        config = decode_json(document, path, RunConfig)
        try:
            check_bounds(config)
        except UsageError as error:
            raise UsageError(f"{path} is damaged: {error}") from None
        return config

    def read_manifest(self, kind: type[S]) -> S | None:
        return self._read_json("manifest.json", kind) if self._has("manifest.json") else None

    def read_failure(self) -> str | None:
        """What broke; None if nothing did, or if the harness was killed."""
        return self._read_json("failure.json", dict[str, str]).get("error") if self._has("failure.json") else None

    def schema(self) -> int:
        """Of config.json."""
        return self._read_versioned("config.json", SCHEMA_VERSION)[0]

    def read_timeline(self) -> Timeline | None:
        return self._read_json("timeline.json", Timeline) if self._has("timeline.json") else None

    def read_final(self) -> dict[str, int] | None:
        return self._read_json("final.json", dict[str, Value]) if self._has("final.json") else None

    def read_verdict(self, kind: type[S]) -> S | None:
        """verdict.json as a value of this type; None if it was not judged yet, or by an older fencepost that measured
        otherwise (`is_outdated`). Raises UsageError if it is damaged, or if a newer fencepost wrote it, and
        UnfitVerdictError if it does not fit the record."""
        if not self._has("verdict.json"):
            return None
        version, document = self._read_versioned("verdict.json", VERDICT_SCHEMA)
        if version < VERDICT_SCHEMA:
            return None
        check_fits(document, self.path / "verdict.json")
        return decode_json(document, self.path / "verdict.json", kind)

    def is_outdated(self) -> bool:
        """Whether an older fencepost judged it, which measured otherwise."""
        return self._has("verdict.json") and self._read_versioned("verdict.json", VERDICT_SCHEMA)[0] < VERDICT_SCHEMA

    def read_environment(self) -> dict[str, Any]:
        return self._read_json("environment.json", dict[str, Any]) if self._has("environment.json") else {}

    def read_experiment(self) -> dict[str, Any] | None:
        """What a scripted run set out to show; None for any other run."""
        return self._read_json("experiment.json", dict[str, Any]) if self._has("experiment.json") else None

    def planned_faults(self) -> int:
        """How many faults the schedule has; 0 if there is no schedule."""
        return len(self._planned())

    def planned_ms(self) -> dict[str, float]:
        """When each fault of the schedule was to be injected, in ms since the start of the load, by its id."""
        try:
            planned = msgspec.convert(self._planned(), list[_Planned])
        except msgspec.ValidationError as error:
            raise UsageError(f"{self.path / 'schedule.json'} is not a schedule: {error}") from None
        return {fault.id: fault.at_ms for fault in planned if fault.at_ms is not None}

    def _planned(self) -> list[object]:
        if not self._has("schedule.json"):
            return []
        schedule = self._read_json("schedule.json", object)
        faults = schedule.get("faults") if isinstance(schedule, dict) else schedule
        if not isinstance(faults, list):
            raise UsageError(f"{self.path / 'schedule.json'} is not a schedule: it has no list of faults")
        return faults

    def read_gaps(self) -> Iterator[tuple[str, int, Iterable[Gap]]]:
        """When clients did not run, each client's life for itself, and when the `PROXY` was kept waiting; nothing where
        that was not watched."""
        return _read_lives(self.gaps, Gap)

    def read_beats(self) -> Iterator[tuple[str, int, Iterable[Beats]]]:
        """The scheduling delay of clients and the `HARNESS`, each life for itself; nothing where that was not kept."""
        return _read_lives(self.beats, Beats)

    def read_denied(self) -> Iterable[Denied]:
        return self.read_log("denied.jsonl", Denied)

    def read_nodes(self) -> Iterable[KeyEvent]:
        """What the witness saw; nothing where none watched."""
        return self.read_log("nodes.jsonl", KeyEvent)

    def damaged(self, name: str, what: str) -> UsageError:
        """What to raise for a file that no run can have left so."""
        return UsageError(f"{self.path / name} is damaged: {what}")

    def _become_latest(self) -> None:
        results, name = self.path.parent, self.path.name
        link = results / f".latest.{os.getpid()}.{name[:22]}"
        link.symlink_to(name)
        link.replace(results / "latest")

    def _has(self, name: str) -> bool:
        return kind_of(self.path / name) is not None

    def read_log(self, name: str, kind: type[S]) -> Iterable[S]:
        """The records of a log of the run itself; none where there is no log."""
        return chain.from_iterable(read_lines(self.path / name, kind)) if self._has(name) else ()

    def _read_versioned(self, name: str, newest: int) -> tuple[int, bytes]:
        """The version of a document's schema, and the document."""
        document = read_document(self.path / name)
        version = decode_json(document, self.path / name, _Versioned).schema_version
        if version > newest:
            raise UsageError(
                f"{self.path / name} has schema {version}; this fencepost reads up to {newest}: get a newer one"
            )
        return version, document

    def _read_json(self, name: str, kind: type[T]) -> T:
        return read_json(self.path / name, kind)

    def _write_json(self, name: str, value: object) -> None:
        text = value.encode() if isinstance(value, str) else _text(value)
        with self.in_place(name) as file:
            file.write(text)

    @contextmanager
    def in_place(self, name: str) -> Iterator[BinaryIO]:
        """A file to write to, which becomes `name` when the block ends well and is removed when it does not."""
        path = self.path / name
        with on_disk(path):
            with beside(path) as half, half.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(self.path)


def part_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object within `environment.json`, say; empty if it is not there, or is no object."""
    part = document.get(name)
    return part if isinstance(part, Mapping) else {}


def short_names(names: Sequence[str]) -> dict[str, str]:
    """For each of the runs' names as much of its beginning as no other one has: the second in which the run began, or
    its whole time; the whole name of a folder that is called otherwise. `RunFolder.open` takes these for the name."""
    stamps = {name: _STAMP.match(name) for name in names}
    times = Counter(each for stamp in stamps.values() if stamp for each in (stamp["second"], stamp[0]))
    return {
        name: next((each for each in (stamp["second"], stamp[0]) if times[each] == 1), name) if stamp else name
        for name, stamp in stamps.items()
    }


def _named(wanted: Path, results: Path) -> Path:
    """The folder of this name in `results`, or the only one whose name begins so. Raises UsageError if several do."""
    if kind_of(results / wanted) is not None or wanted.name != str(wanted) or not _STAMP_BEGINS.match(wanted.name):
        return results / wanted
    alike = sorted(path.name for path in results.glob(f"{glob.escape(wanted.name)}*")) if results.is_dir() else []
    if len(alike) > 1:
        raise UsageError(f"{wanted} is the beginning of {len(alike)} runs in {results}: {', '.join(alike[:3])}, …")
    return results / (alike[0] if alike else wanted)


def client_logs(logs: Path) -> list[tuple[str, int, Path]]:
    """Whose log each one in the folder is, as client and life: c2 before c10. Raises UsageError for a log that is
    called otherwise."""
    lives = []
    for log in logs.glob("*.jsonl"):
        match = _LOG_NAME.fullmatch(log.name)
        if match is None:
            raise UsageError(f"{log} is not a client's log; those are called <client>.<life>.jsonl")
        lives.append((match["client"], int(match["life"]), log))
    return sorted(lives, key=lambda life: (len(life[0]), life[0], life[1]))


def _read_lives(logs: Path, kind: type[S]) -> Iterator[tuple[str, int, Iterable[S]]]:
    return ((client, life, chain.from_iterable(read_lines(log, kind))) for client, life, log in client_logs(logs))


def _text(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _safe(part: str) -> str:
    """Fit for a file name on any system, and not too long for one."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-.")[:60] or "none"


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
