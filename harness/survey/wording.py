"""What the survey found, as sentences and cells for every form of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fencepost.text import count, listed, percent, plural
from harness.campaign import facts
from harness.campaign.grid import Grid
from harness.survey.grid import TTL_MS
from harness.survey.promises import ENOUGH
from harness.survey.settle import Row, Settled
from harness.survey.subjects import Library, Subject, is_old, library_of, released_of
from workloads.registry import find_lock

INTRODUCTION: Final = (
    "A distributed lock lets one of many programs at a time do something that two must not do at once. These libraries "
    "keep it on Redis servers, for a time to live (TTL), so that it comes free when its holder dies.",
    f"Real client processes used each library on real servers, with a TTL of {TTL_MS / 1000:g} s, while the same "
    "faults were injected into all of them. That TTL is shorter than most libraries recommend, so that a fault of a "
    "second or two outlasts it; all other settings are those in the locks' manifests. A judge went through each record "
    "afterwards. It blames the lock only where every reading of the record does.",
)

READING: Final = (
    "✗ broken: in how many of the runs in which the promise was tested. ✓ kept: tested in "
    f"{ENOUGH} runs or more and never broken; the number is the share of such runs that may break it all the same "
    "(the upper end of Clopper and Pearson's 95 % interval), over all faults; under one of them it may be more. "
    "? not known, with the reason. — does not apply. A ✗ has a finding that says what happens and where in the "
    "library; what no finding explains is a ?. Runs in which a server's clock was set wrong count for nothing here."
)

NOT_TESTED: Final = (
    "Power cuts, full disks, and servers that lose what they had acknowledged.",
    "Redis Cluster, Sentinel and replicas: each server here is on its own.",
    "Other settings than those shown. Many libraries have a setting that mends what their defaults do.",
    f"Other TTLs than {TTL_MS / 1000:g} s, and more than five clients. The findings say what another TTL changes.",
    "Libraries in Ruby, .NET and for Deno, and in PHP others than those that Debian 12 has.",
)

_NO_DOWNLOADS: Final[Mapping[str, str]] = {
    "python": "not among PyPI's 15,000 most downloaded",
    "go": "the Go module proxy counts no downloads",
    "java": "Maven Central publishes no downloads",
    "rust": "downloads not asked for",
    "php": "downloads not asked for",
}
"""By language: why none are told."""

OURS: Final[Mapping[str, str]] = {
    "correct": "ours, a correct lock: it must not be blamed",
    "broken": "ours, broken on purpose: it must be blamed",
}


def headline(rows: Sequence[Row]) -> str:
    """`3 locks of 2 libraries in 1 language, 1,200 runs: 1 lock broke a promise (pottery)`."""
    played = [row for row in rows if row.subject.role == "library" and row.runs]
    runs = plural(sum(row.runs for row in rows), "run")
    if not played:
        return f"no library was played yet; {runs} of locks of ours"
    libraries = len({(row.library.name, row.library.language) for row in played})
    languages = plural(len({row.library.language for row in played}), "language")
    of = f"{libraries} {'library' if libraries == 1 else 'libraries'} in {languages}"
    blamed = [row.subject.name for row in played if row.is_blamed]
    outcome = f"{plural(len(blamed), 'lock')} broke a promise ({listed(blamed)})" if blamed else "none broke a promise"
    return f"{plural(len(played), 'lock')} of {of}, {runs}: {outcome}"


def controls(rows: Sequence[Row]) -> list[str]:
    """What the locks show about which the answer is known beforehand: a sentence for each."""
    return [_control(row) for row in rows if row.subject.role != "library"]


def _control(row: Row) -> str:
    name = f"{row.subject.name} ({OURS[row.subject.role]})"
    if not row.runs:
        return f"{name}: no run."
    broken = [each.promise for each in row.settled if each.answer == "broken"]
    blamed = [each.title for each in broken if each.name not in row.subject.known_broken]
    said = f"blamed for {listed(blamed)}" if blamed else "not blamed"
    if known := [each.title for each in broken if each.name in row.subject.known_broken]:
        said += f", but for {listed(known)}, of which it is known"
    if row.is_as_it_must_be is None:
        said += " so far"
    wrong = " This is wrong, so nothing on this page can be relied on." if row.is_as_it_must_be is False else ""
    return f"{name}: {plural(row.runs, 'run')}, {said}.{wrong}"


def about(row: Row, asked: str) -> str:
    """`redlock 4.2.0 · node · 2,780,000 downloads a month · Redlock, all nodes at once`. `asked`: the date of the
    runs."""
    library, subject = row.library, row.subject
    if subject.role != "library":
        return f"{OURS[subject.role]} · {subject.algorithm}"
    known = (released(library, asked), downloads(subject, library.language))
    return " · ".join([version(row), library.language, *known, subject.algorithm])


def version(row: Row) -> str:
    """`redlock 4.2.0`."""
    return f"{row.library.name} {row.library.version}"


def downloads(subject: Subject, language: str) -> str:
    """`2,780,000 downloads a month`, or `rank 143 on PyPI`; without either, why."""
    found = subject.downloads
    if found is None:
        return _NO_DOWNLOADS[language]
    return f"rank {count(found.rank)} on PyPI" if found.rank else f"{count(found.a_month)} downloads a month"


def released(library: Library, asked: str) -> str:
    """`newest release 2016-03: unmaintained`. `asked`: when."""
    month = released_of(library)
    if not month:
        return "date of its newest release not known"
    return f"newest release {month}{': unmaintained' if is_old(month, asked) else ''}"


def settings(subject: Subject) -> str:
    """How its lock's manifest configures the library; empty of a lock of ours."""
    manifest = find_lock(subject.lock).manifest
    return "; ".join(f"{name}: {says}" for name, says in manifest.configured.items()) if manifest else ""


def unmaintained(subjects: Iterable[Subject], asked: str) -> list[str]:
    """`redlock-py (newest release 2016-03)`: the libraries of these that are. `asked`: when."""
    months = {library.name: released_of(library) for library in map(library_of, subjects)}
    return [f"{name} (newest release {month})" for name, month in months.items() if is_old(month, asked)]


def source(subject: Subject) -> str:
    """`downloads: npm, by Socket: a week times 4.3, 2024`; empty where they are unknown."""
    return f"downloads: {subject.downloads.source}, {subject.downloads.date}" if subject.downloads else ""


def note(settled: Settled) -> str:
    """What stands beside the sign: `3 of 40`, `≤ 9 %`, or why it is not known."""
    if settled.answer == "broken":
        return f"{settled.rate.events} of {settled.rate.trials}"
    return f"≤ {percent(settled.rate.high, up=True)}" if settled.answer == "kept" else settled.brief


def story(settled: Settled) -> str:
    """`late-grant in 3 runs. Under slow answers in 2 runs, client paused in 1 run.`"""
    kinds = ", ".join(f"{kind} in {plural(number, 'run')}" for kind, number in settled.kinds.items())
    faults = ", ".join(f"{fault} in {plural(number, 'run')}" for fault, number in settled.by_fault.items())
    return f"{kinds}. By fault: {faults}."


def also(row: Row) -> str:
    """What else was seen; empty if nothing was."""
    said = []
    if row.clocks.trials:
        said.append(
            "With a server's clock set wrong, two were inside through no fault of the library in "
            f"{row.clocks.events} of {plural(row.clocks.trials, 'run')}."
        )
    if row.others:
        named = ", ".join(f"{kind} in {plural(number, 'run')}" for kind, number in row.others.items())
        said.append(f"Also found, and held against no promise: {named}.")
    return " ".join(said)


def missing(rows: Sequence[Row], grid: Grid) -> list[str]:
    """What was to be played and was not: a sentence for each lock of which there is nothing, one for the rest, and one
    for each fault that only some of the locks are to meet."""
    begun = [row for row in rows if row.runs]
    said = [f"{row.subject.name}: not played{': ' if row.cannot else ''}{row.cannot}." for row in rows if not row.runs]
    said += [
        f"{row.subject.name}: {plural(row.broke_off, 'run')} aborted; to be made again."
        for row in begun
        if row.broke_off
    ]
    made, planned = sum(row.runs for row in begun), sum(row.planned for row in begun)
    if made < planned:
        said.append(f"Of the others, {count(made)} of {plural(planned, 'run')} were made so far.")
    for fault, subjects in met(grid).items():
        if spared := [row.subject.name for row in begun if row.subject.name not in subjects]:
            said.append(f"{listed(spared)}: not played under {fault}.")
    return said


def met(grid: Grid) -> dict[str, set[str]]:
    """By the name of a fault, the subjects that are to meet it."""
    met: dict[str, set[str]] = {}
    for _, cell in grid.cells.values():
        met.setdefault(cell.at["fault"], set()).add(cell.at["subject"])
    return met


def command(grid: Grid, settled: Settled) -> str:
    """What makes the first run again that broke the promise."""
    line = settled.broken[0].line
    return facts.command(grid, line.cell, line.seed)
