"""The plugin: options, the marker, the fixture, and what a test's report says about its runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_fencepost.result import Run
from pytest_fencepost.runner import Fencepost, Session
from pytest_fencepost.seeds import Seeds
from pytest_fencepost.testbeds import bearable

_FENCEPOST = pytest.StashKey[Fencepost]()
_SECTION = "fencepost"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fencepost", "locks under faults")
    group.addoption("--fencepost-seed", type=int, metavar="N", help="seed of every run: same seed, same faults")
    group.addoption("--fencepost-cluster", choices=("auto", "process", "docker"), help="where servers run")
    group.addoption(
        "--fencepost-require",
        metavar="PROMISES",
        help="promises that must be kept: lock, exclusion, lease, liveness, data; joined by +",
    )
    group.addoption("--fencepost-keep", action="store_true", help="keep the run folders of tests that pass, too")
    group.addoption("--fencepost-command", metavar="CMD", help="how fencepost is called (default: $FENCEPOST, or PATH)")
    parser.addini("fencepost_command", "how fencepost is called", default="")
    parser.addini("fencepost_results", "folder of run folders, below the root folder", default="fencepost-runs")
    parser.addini("fencepost_at_once", "how many runs may be made at once (default: one a processor)", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "fencepost(**options): options for the runs of a test, as for fencepost.run(): nemesis, duration, …"
    )


@pytest.fixture
def fencepost(request: pytest.FixtureRequest) -> Fencepost:
    """Makes runs of a lock under faults: `fencepost.run("package.module:Class", nemesis="partition").valid`."""
    defaults: dict[str, object] = {}
    for mark in reversed(list(request.node.iter_markers("fencepost"))):  # the closest one comes last, and counts
        defaults.update(mark.kwargs)
    node = request.node
    made = Fencepost(_session(request.config), defaults, _seeds(request.config).of(node.nodeid), node.user_properties)
    node.stash[_FENCEPOST] = made
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    made = item.stash.get(_FENCEPOST, None)
    if call.when != "call" or made is None:
        return report
    seeds, keeps = _seeds(item.config), item.config.getoption("--fencepost-keep")
    if report.passed:
        seeds.keep(item.nodeid, [])
        for run in made.runs:
            if not keeps:
                _remove(run.folder)
    elif made.runs:
        failed = [None if run.valid else run.seed for run in made.runs]
        seeds.keep(item.nodeid, failed)
        said = str(report.longrepr)
        told_of = [_told(run, said, is_kept=seeds.folder is not None) for run in made.runs if not run.valid]
        report.sections += [(_SECTION, text) for text in told_of]
        pages = [_page(run) for run in made.runs if not run.valid]
        report.extras = [*getattr(report, "extras", []), *pages]  # type: ignore[attr-defined]  # of pytest-html
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of tests that passed: the runs that say nothing about the lock, and the valid ones that lost data, say."""
    names = ("fencepost_verdict", "fencepost_kept", "fencepost_story", "fencepost_hides")
    unknown, hiding = [], []
    for report in terminalreporter.getreports("passed"):
        told = [value for name, value in report.user_properties if name in names]
        for word, kept, story, hides in zip(told[::4], told[1::4], told[2::4], told[3::4], strict=True):
            line = f"{report.nodeid} passed, but {_first_line(story)} ({kept})"
            unknown += [line] if word == "unknown" else []
            hiding += [line] if word == "valid" and hides else []
    _told_at_the_end(terminalreporter, "runs that say nothing about the lock", unknown)
    _told_at_the_end(terminalreporter, "valid runs in which another promise was broken", hiding)


def _told_at_the_end(reporter: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        reporter.section(f"fencepost: {title}", yellow=True)
        for line in lines:
            reporter.line(line)


def _session(config: pytest.Config) -> Session:
    overrides = {name: config.getoption(f"--fencepost-{name}") for name in ("seed", "cluster", "require")}
    command = config.getoption("--fencepost-command") or config.getini("fencepost_command")
    at_once = config.getini("fencepost_at_once")
    if at_once and not (at_once.isdigit() and int(at_once)):
        raise pytest.UsageError(f"fencepost_at_once is {at_once!r}; it must be a whole number above 0")
    return Session(
        command=command or os.environ.get("FENCEPOST", ""),
        folder=config.rootpath,
        results=config.rootpath / config.getini("fencepost_results"),
        overrides={name: value for name, value in overrides.items() if value is not None},
        at_once=int(at_once or bearable()),
        worker=int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
        shows_progress=config.getoption("capture") == "no",
    )


def _seeds(config: pytest.Config) -> Seeds:
    cache = getattr(config, "cache", None)
    return Seeds(None if cache is None else cache.mkdir("fencepost"))


def _told(run: Run, said: str, *, is_kept: bool) -> str:
    """What the report of a failed test says about a run; the story only if the test did not say it itself."""
    lines = [] if _first_line(run.story) in said else [run.story]
    if run.verdict == "unknown":
        lines.append("This run says nothing about the lock, neither good nor bad.")
    if run.diagram:
        lines += ["", *run.diagram.splitlines(), ""]
    lines += [f"picture  {run.picture}", f"replay   {run.replay}"]
    if is_kept:
        lines.append(f"seed     {run.seed}, tried first the next time")
    return "\n".join(lines)


def _page(run: Run) -> dict[str, object]:
    """A link as pytest-html has them (`pytest_html.extras.url`)."""
    link = {"name": f"fencepost seed {run.seed}", "format_type": "url", "content": run.picture.absolute().as_uri()}
    return {**link, "mime_type": None, "extension": None}


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _remove(folder: Path) -> None:
    """Remove a run's folder, and what would be left beside it: a link to it, or nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        latest = folder.parent / "latest"
        if latest.is_symlink() and not latest.exists():
            latest.unlink(missing_ok=True)
        folder.parent.rmdir()  # fails if other runs are there
