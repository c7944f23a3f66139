"""How a document was made, as every form of it states: by what, on what, when, from which runs, by which command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from fencepost.text import MISSING, count, listed, plural, printable
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.grid import Grid

UNKNOWN: Final = "not recorded"
_STAMP: Final = "%Y%m%dT%H%M%S"


@dataclass(frozen=True, slots=True)
class Provenance:
    """`versions`: by what they are of, as the runs recorded them. `made`: the first day and the last. `finished`: of
    the `planned` runs; `broke_off`: made again when the study goes on. `left_out`: a sentence each. `command`: the
    different ones, a line each."""

    revisions: Mapping[str, int]
    versions: Mapping[str, Sequence[str]]
    machine: Mapping[str, object]
    made: Sequence[str]
    finished: int
    planned: int
    broke_off: int
    seeds: str
    left_out: Sequence[str]
    command: str

    @property
    def rows(self) -> list[tuple[str, str]]:
        """For a table of two columns."""
        versions = [(what, ", ".join(found)) for what, found in self.versions.items()]
        unsaid = [(what, UNKNOWN) for what in ("fencepost", "servers", "lock libraries") if what not in self.versions]
        broke_off = f"; {count(self.broke_off)} aborted" if self.broke_off else ""
        return [
            ("revision", in_words(self.revisions)),
            *versions,
            *unsaid,
            ("machine", machine_line(self.machine)),
            ("made", " to ".join(dict.fromkeys(self.made)) or UNKNOWN),
            ("runs", f"{count(self.finished)} of {plural(self.planned, 'run')}{broke_off}"),
            ("seeds", self.seeds),
            ("left out", " ".join(f"{said.rstrip('.')}." for said in self.left_out) or "nothing"),
        ]

    def to_builtins(self) -> dict[str, object]:
        """For JSON. `revision`: of most of the runs."""
        return {"revision": next(iter(self.revisions), ""), **msgspec.to_builtins(self)}


def provenance_of(campaign: Campaign, lines: Sequence[RunLine], left_out: Iterable[str] = ()) -> Provenance:
    """`left_out`: what was to be played, and was not."""
    finished = [line for line in lines if line.error is None]
    dates = sorted(date for line in finished if (date := date_of(line.folder)))
    revisions = Counter(line.revision for line in finished if line.revision)
    return Provenance(
        revisions=dict(revisions.most_common()) or ({campaign.revision: 0} if campaign.revision else {}),
        versions=_versions(finished),
        machine=campaign.machine,
        made=[dates[0], dates[-1]] if dates else [],
        finished=len(finished),
        planned=campaign.grid.run_count,
        broke_off=len(lines) - len(finished),
        seeds=_seeds(campaign.grid),
        left_out=list(left_out),
        command="\n".join(dict.fromkeys(campaign.command.splitlines())),
    )


def versions_of(environment: Mapping[str, Any]) -> dict[str, str]:
    """Of what a run was made with. `environment`: what its `environment.json` holds."""
    cluster = environment.get("cluster") or {}
    servers = [
        " ".join(str(server[name]) for name in ("name", "version") if server.get(name))
        for server in (cluster.get("server"), cluster.get("resource_server"))
        if isinstance(server, dict)
    ]
    found = {
        "fencepost": environment.get("fencepost"),
        "servers": " and ".join(dict.fromkeys(servers)),
        "Toxiproxy": (cluster.get("toxiproxy") or {}).get("version"),
        "lock libraries": (environment.get("lock") or {}).get("library"),
    }
    return {what: str(version) for what, version in found.items() if version}


def date_of(folder: str) -> str:
    """`2026-01-31`, from the name of a run folder; empty if that has none."""
    try:
        return f"{datetime.strptime(folder.split('-')[0].rstrip('Z')[:15], _STAMP):%Y-%m-%d}"
    except ValueError:
        return ""


def in_words(revisions: Mapping[str, int]) -> str:
    """`1a2b`; `1a2b with uncommitted changes (118 runs) and 3c4d (12 runs)` of runs that several revisions made."""
    named = [_named(revision) for revision in revisions]
    if len(named) < 2:
        return named[0] if named else UNKNOWN
    return listed([f"{name} ({plural(runs, 'run')})" for name, runs in zip(named, revisions.values(), strict=True)])


def _named(revision: str) -> str:
    return f"{revision[:-1]} with uncommitted changes" if revision.endswith("+") else revision


def machine_line(machine: Mapping[str, object]) -> str:
    """`Linux 6.18.0, 2 cores, Python 3.11.2`."""
    kernel, cores, python = (machine.get(name, MISSING) for name in ("kernel", "cores", "python"))
    return printable(f"Linux {kernel}, {cores} cores, Python {python}")


def _versions(lines: Iterable[RunLine]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}
    for line in lines:
        for what, version in line.versions.items():
            found.setdefault(what, {})[version] = None
    return {what: sorted(versions) for what, versions in found.items()}


def _seeds(grid: Grid) -> str:
    """`1 to 10`; where parts have different numbers of them, each."""
    ranges = dict.fromkeys((grid.first_seed, grid.first_seed + part.seeds - 1) for part in grid.parts)
    return "; ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ranges)
