"""What every test can rely on, however the tests were started."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.foreground import obey_signals
from tests.needs import why_not

_MARK = "needs "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--must-have", default="", metavar="NEED,…", help="needs (tests/needs.py) that must not be missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    obey_signals()
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            if missing := why_not(need):
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
