"""How long each test takes, as measured before: what `make test QUICK=1` leaves out, which files begin first, and how
much is left.

`durations.json` names every test function that took `SLOW_S` or longer (the mean of its cases) and every fixture that
many tests share and that took so long to set up. `pytest --record-durations` measures again what it plays and leaves
the rest as it is; a test that is not named counts as fast, so a new one is part of the quick form until it is measured.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, Final

import pytest

SLOW_S: Final = 0.5
_FAST_S: Final = 0.05
RECORD = Path(__file__).with_suffix(".json")
_SHARED: Final = "shared fixtures"
_PLUGIN: Final = "durations"


def function_of(nodeid: str) -> str:
    """The test function without the names of its cases: what the record is kept by."""
    return nodeid.partition("[")[0]


def load() -> dict[str, float]:
    """Seconds by test function, and by `shared_name` of a fixture; of the slow ones only."""
    return json.loads(RECORD.read_bytes()) if RECORD.exists() else {}


def shared_name(fixture: pytest.FixtureDef[Any]) -> str:
    return f"{_SHARED}: {fixture.baseid}::{fixture.argname}"


def seconds(nodeid: str, record: Mapping[str, float]) -> float:
    """How long a test took, or a guess for one that is not named."""
    return record.get(function_of(nodeid), _FAST_S)


def is_slow(item: pytest.Item, record: Mapping[str, float]) -> bool:
    """Whether the test, or a fixture that it shares with others, is on record as slow."""
    found: Mapping[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    shared = (shared_name(fixture) for each in found.values() for fixture in each if fixture.scope != "function")
    return function_of(item.nodeid) in record or any(name in record for name in shared)


def longest_first(items: list[pytest.Item], record: Mapping[str, float]) -> None:
    """Sort the files by how long all of their tests take, so that no long one begins when the others are through."""
    total: dict[Path, float] = defaultdict(float)
    for item in items:
        total[item.path] += seconds(item.nodeid, record)
    items.sort(key=lambda item: -total[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note in the test's report what a fixture took that later tests share: it is not this test's own time."""
    began = monotonic()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function" and fixturedef.baseid:
            took_s = monotonic() - began
            request.session.stash[_SETUPS].append([shared_name(fixturedef), took_s])


_SETUPS: Final = pytest.StashKey[list[list[Any]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    session.stash[_SETUPS] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    setups = item.session.stash[_SETUPS]
    report.user_properties.extend((_PLUGIN, each) for each in setups)
    setups.clear()
    return report


class Recorder:
    """Measures what is played, and writes it into the record at the end."""

    def __init__(self) -> None:
        self._took: dict[str, float] = defaultdict(float)
        self._shared: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration
        for name, found in report.user_properties:
            if name == _PLUGIN:
                fixture, took_s = found
                self._took[report.nodeid] -= took_s
                self._shared[fixture] = max(took_s, self._shared.get(fixture, 0.0))

    def pytest_sessionfinish(self) -> None:
        cases: dict[str, list[float]] = defaultdict(list)
        for nodeid, took_s in self._took.items():
            cases[function_of(nodeid)].append(took_s)
        measured = {name: fmean(each) for name, each in cases.items()} | self._shared
        files = {name.partition("::")[0] for name in measured}
        kept = {name: took_s for name, took_s in load().items() if name.partition("::")[0] not in files}
        slow = {name: round(took_s, 1) for name, took_s in measured.items() if took_s >= SLOW_S}
        RECORD.write_text(json.dumps(kept | slow, indent=0, sort_keys=True) + "\n")
