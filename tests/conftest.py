"""What every test can rely on, however the tests were started."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

from tests import durations
from tests.foreground import obey_signals
from tests.needs import why_not
from tests.progress import Progress
from tests.skips import LACKS, Noting, read_skipped

pytest_plugins = ("tests.golden",)
_MARK = "needs "
_ASKED = pytest.StashKey[set[str] | None]()
_GRACE_S = float(os.environ.get("FENCEPOST_HANG_GRACE_S", "30"))

# Images of containers set it. Then each process of each run would compile its modules anew, and pytest, in each of its
# own processes, all tests: the tests would take twice as long, and prove nothing more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fencepost")
    group.addoption("--must-have", default="", metavar="NEED,…", help="needs (tests/needs.py) that must not be missing")
    group.addoption("--quick", action="store_true", help="leave out what is slow on record (tests/durations.py)")
    group.addoption("--record-durations", action="store_true", help="measure what is slow (tests/durations.py)")
    group.addoption("--note-skipped", type=Path, metavar="FILE", help="write down which tests were skipped")
    group.addoption("--play-skipped", type=Path, metavar="FILE", help="only the tests that were skipped then")


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait far more than they compute: a run takes about half a processor."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(trylast=True)  # the terminal's reporter is there by then
def pytest_configure(config: pytest.Config) -> None:
    obey_signals()
    os.environ.pop("PYTHONUNBUFFERED", None)  # few users have it, and it hides what is lost in a buffer
    # How long an example takes says more about the machine than about the code.
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
    for need in filter(None, config.getoption("--must-have").split(",")):
        try:
            missing = why_not(need)
        except KeyError:
            raise pytest.UsageError(f"--must-have {need}: tests/needs.py knows no such need") from None
        if missing:
            raise pytest.UsageError(f"--must-have {need}: {missing}")
    file = config.getoption("--play-skipped")
    config.stash[_ASKED] = None if file is None else {each.test for each in read_skipped(file)}
    plugins = config.pluginmanager
    if config.getoption("--record-durations"):
        plugins.register(durations, "fencepost-durations")
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--record-durations"):
        plugins.register(durations.Recorder())
    if config.getoption("--note-skipped") is not None:
        plugins.register(Noting(config.getoption("--note-skipped")))
    reporter = plugins.get_plugin("terminalreporter")
    if reporter is not None and config.get_verbosity() <= 0:
        plugins.register(Progress(reporter))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file without any test that is asked for is not imported: that takes each of pytest's processes seconds."""
    asked = config.stash[_ASKED]
    if asked is None or collection_path.is_dir():
        return None
    return None if any(config.rootpath / test.partition("::")[0] == collection_path for test in asked) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    record = durations.load()
    quick, asked = config.getoption("--quick"), config.stash[_ASKED]

    def is_wanted(item: pytest.Item) -> bool:
        fits = not quick or item.get_closest_marker("quick") is not None or not durations.is_slow(item, record)
        return fits and (asked is None or item.nodeid in asked)

    if left_out := [item for item in items if not is_wanted(item)]:
        items[:] = [item for item in items if is_wanted(item)]
        config.hook.pytest_deselected(items=left_out)
    if hasattr(config, "workerinput"):
        durations.longest_first(items, record)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that hangs is named, also one that swallows the exception of its time-out: it ends its process then, with
    the stacks of all threads, and pytest-xdist says what that process was playing."""
    marked = item.get_closest_marker("timeout")
    limit_s = float(marked.args[0] if marked is not None else item.config.getini("timeout") or 0)
    if limit_s:
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(2 * limit_s + _GRACE_S, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            if missing := why_not(need):
                item.user_properties.append((LACKS, need))
                pytest.skip(f"{_MARK}{need}: {missing}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.startswith(f"Skipped: {_MARK}"):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped without a need that tests/needs.py knows: {reason}"
    return report
