"""How the tests themselves are run: which are chosen, which are noted, and what is said meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.polling import becomes_true
from tests import durations
from tests.progress import Progress, Tally
from tests.skips import Skipped, read_skipped

pytest_plugins = "pytester"

ROOT = Path(__file__).resolve().parent.parent

TESTS = """
import time, pytest

@pytest.fixture(scope="module")
def cluster():
    time.sleep(0.6)

@pytest.mark.parametrize("case", [0, 1])
def test_slow(case):
    time.sleep(0.6)

def test_fast():
    pass

def test_on_the_cluster(cluster):
    pass

@pytest.mark.quick
def test_chosen():
    time.sleep(0.6)

@pytest.mark.needs("lock:redsync")
def test_of_a_lock():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Tests with a record of their own, on a machine without any lock."""
    monkeypatch.setattr(durations, "RECORD", pytester.path / "durations.json")
    monkeypatch.setenv("FENCEPOST_TOOLS", str(pytester.path / "no-tools"))
    monkeypatch.setattr("tests.conftest.why_not", lambda need: f"{need} is not installed")
    pytester.makepyfile(test_suite=TESTS)
    pytester.makeini("[pytest]\nmarkers =\n  needs: x\n  quick: x\n")
    return pytester


def play(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "tests.conftest", "-p", "no:randomly", *options)


def test_what_was_slow_when_it_was_measured_is_left_out_of_the_quick_form(suite: pytest.Pytester) -> None:
    play(suite, "--record-durations").assert_outcomes(passed=5, skipped=1)
    record = json.loads((suite.path / "durations.json").read_text())
    assert record.keys() == {
        "test_suite.py::test_slow",
        "test_suite.py::test_chosen",
        "shared fixtures: test_suite.py::cluster",
    }
    assert all(0.6 <= took_s < 60 for took_s in record.values())
    quick = play(suite, "--quick", "-v")
    quick.assert_outcomes(passed=2, skipped=1, deselected=3)
    quick.stdout.fnmatch_lines(["*::test_fast PASSED*", "*::test_chosen PASSED*"])


def test_a_measurement_of_some_files_leaves_the_others_on_record(suite: pytest.Pytester) -> None:
    other = {"test_other.py::test_slow": 7.0, "test_suite.py::test_renamed": 7.0}
    (suite.path / "durations.json").write_text(json.dumps(other))
    play(suite, "--record-durations", "-k", "fast or chosen")
    record = json.loads((suite.path / "durations.json").read_text())
    assert record["test_other.py::test_slow"] == 7.0
    assert "test_suite.py::test_renamed" not in record


def test_what_was_skipped_is_played_later_and_nothing_else(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = suite.path / "skipped"
    play(suite, "--note-skipped", str(file)).assert_outcomes(passed=5, skipped=1)
    assert read_skipped(file) == [Skipped("test_suite.py::test_of_a_lock", "lock:redsync")]
    monkeypatch.setattr("tests.conftest.why_not", lambda need: "")
    suite.makepyfile(test_other="raise Exception('no test of this file was skipped, so it is not imported')")
    play(suite, "--play-skipped", str(file)).assert_outcomes(passed=1, deselected=5)


def test_a_list_of_skipped_tests_that_is_none_is_one_clear_line(suite: pytest.Pytester) -> None:
    (suite.path / "skipped").write_text("make test")
    result = play(suite, "--play-skipped", "skipped")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --play-skipped skipped: *"])


def test_a_failure_is_told_at_once_and_there_are_no_dots(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_other="def test_wrong(): assert 1 == 2\ndef test_right(): pass")
    result = play(suite, "test_other.py")
    assert "FAILED test_other.py::test_wrong (call)" in result.stdout.lines
    result.stdout.no_fnmatch_line("*[[]100%]*")
    result.stdout.fnmatch_lines(["FAILED test_other.py::test_wrong - assert 1 == 2"])


def test_a_test_that_swallows_its_time_out_is_named_with_its_stack(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_HANG_GRACE_S", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    suite.makepyfile(
        test_other="""
        import time, pytest

        @pytest.mark.timeout(0.2)
        def test_that_hangs():
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    pass
        """
    )
    result = suite.runpytest_subprocess("-p", "tests.conftest", "-n", "1", "--maxfail", "1", "test_other.py")
    result.stdout.fnmatch_lines(["*worker 'gw0' crashed while running 'test_other.py::test_that_hangs'*"])
    result.stderr.fnmatch_lines(["*test_other.py*in test_that_hangs*"])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_that_is_left_is_told_by_what_the_tests_took_before() -> None:
    clock, record = Clock(), {"a.py::long": 90.0, "b.py::short": 10.0}
    tally = Tally(["a.py::long", "b.py::short[x]", "c.py::new"], record, clock)
    assert tally.in_words() == "0 of 3 tests"
    tally.starts("a.py::long")
    tally.starts("b.py::short[x]")
    clock.now = 20.0
    tally.ends("b.py::short[x]")
    assert tally.in_words() == "1 of 3 tests, about 3 minutes left", "twice as slow as when it was measured"
    clock.now = 200.0
    tally.ends("a.py::long")
    assert tally.in_words() == "2 of 3 tests, about 10 seconds left"
    tally.ends("c.py::new")
    assert tally.in_words() == "3 of 3 tests"


def test_a_test_that_hangs_is_named_while_it_does() -> None:
    clock = Clock()
    tally = Tally(["a.py::hangs", "b.py::runs"], {}, clock)
    tally.starts("a.py::hangs")
    clock.now = 40.0
    tally.starts("b.py::runs")
    assert tally.in_words().endswith("; a.py::hangs has been running for 40 s")


class Reporter:
    """What progress needs of pytest's reporter. `did`: the lines that were written, and `flushed`."""

    isatty, showfspath = False, True

    def __init__(self) -> None:
        self.did: list[str] = []

    def write_line(self, text: str, **_: object) -> None:
        self.did.append(text)

    def flush(self) -> None:
        self.did.append("flushed")


def test_nothing_is_said_into_the_output_of_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that plays the tests itself captures all that is written during a test."""

    class Session:
        items = (SimpleNamespace(nodeid="a.py::test"),)

    monkeypatch.setattr("tests.progress._LOG_S", 0.01)
    reporter = Reporter()
    progress = Progress(reporter)  # type: ignore[arg-type]
    progress.pytest_collection_finish(Session())  # type: ignore[arg-type]
    assert not becomes_true(lambda: bool(reporter.did), within_s=0.2)
    progress.pytest_runtest_logfinish("a.py::test")
    assert reporter.did[0] == "1 of 1 test"
    assert set(reporter.did[1:]) <= {"flushed"}
    progress.pytest_sessionfinish()


def test_files_that_take_long_begin_first() -> None:
    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid, self.path = nodeid, Path(nodeid.partition("::")[0])

    items = [Item("a.py::x"), Item("b.py::y"), Item("b.py::z"), Item("c.py::u")]
    durations.longest_first(items, {"b.py::z": 7.0, "c.py::u": 8.0})  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == ["c.py::u", "b.py::y", "b.py::z", "a.py::x"]


def test_what_is_said_goes_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is a file is otherwise written by the page, minutes later."""
    monkeypatch.setattr("tests.progress._LOG_S", 0.01)
    reporter = Reporter()
    progress = Progress(reporter)  # type: ignore[arg-type]
    progress.pytest_xdist_node_collection_finished(["a.py::test"])
    assert becomes_true(lambda: reporter.did[:2] == ["0 of 1 test", "flushed"]), "without any event"
    progress.pytest_sessionfinish()
    assert set(reporter.did[1::2]) == {"flushed"}
