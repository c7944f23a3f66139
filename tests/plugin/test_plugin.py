"""What the plugin asks fencepost for, and what a test's report says of the answer."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.plugin.conftest import DIAGRAM, LOST, PLUGIN, STORIES, Fake

pytest_plugins = "pytester"

ASSERTS = """
def test_lock(fencepost):
    run = fencepost.run("my_pkg.locks:MyLock", nemesis="partition", duration="20s")
    assert run.valid, run.story
"""
PASSES = ASSERTS.replace("assert run.valid, run.story", "assert run.verdict")


def test_a_valid_run_passes_and_leaves_nothing(fake: Fake) -> None:
    fake.test(ASSERTS).assert_outcomes(passed=1)
    assert not (fake.pytester.path / "fencepost-runs").exists()


def test_run_folders_of_tests_that_pass_can_be_kept(fake: Fake) -> None:
    fake.test(ASSERTS, "--fencepost-keep").assert_outcomes(passed=1)
    assert len(fake.runs) == 1


def test_a_replay_can_be_pasted_where_pytest_was_started(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told for the root folder, where fencepost was called."""
    fake.judges("violation")
    fake.pytester.makeini("[pytest]")
    monkeypatch.chdir(fake.pytester.mkdir("below"))
    result = fake.test(ASSERTS, str(fake.pytester.path / "test_lock.py"))
    root = shlex.quote(str(fake.pytester.path))
    result.stdout.fnmatch_lines([f"replay   cd {root} && fencepost test --schedule schedule.json"])


@pytest.mark.parametrize("in_ci", [False, True])
def test_a_violation_fails_with_its_story_the_picture_and_the_replay_and_keeps_the_folder(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, in_ci: bool
) -> None:
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    if in_ci:
        monkeypatch.setenv("CI", "true")
    fake.judges("violation")
    result = fake.test(ASSERTS)
    result.assert_outcomes(failed=1)
    (run,) = fake.runs
    result.stdout.fnmatch_lines(
        [
            f"E*{STORIES['violation'].splitlines()[0]}",
            "E*c3 and c7 met.",
            "*- fencepost -*",
            "",
            *DIAGRAM.splitlines(),
            "",
            f"picture  {run}/report.html",
            "replay   fencepost test --schedule schedule.json",
            "seed     4711, tried first the next time",
        ]
    )
    # Where pytest finds that it runs in CI, its closing summary repeats the whole message of every assertion.
    told, _, _ = str(result.stdout).partition("short test summary info")
    assert told.count("c3 and c7 met.") == 1


def test_a_bare_assert_shows_the_story_too(fake: Fake) -> None:
    fake.judges("violation")
    result = fake.test(ASSERTS.replace(", run.story", ""))
    result.stdout.fnmatch_lines(["*<run of MyLock under partition, seed 4711: violation>*", "*- fencepost -*", "VIOL*"])


def test_an_unknown_run_is_no_pass_and_says_that_it_says_nothing(fake: Fake) -> None:
    fake.judges("unknown")
    result = fake.test(ASSERTS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*UNKNOWN — nobody acquired the lock", "*says nothing about the lock*"])


def test_an_unknown_run_of_a_test_that_passes_all_the_same_is_told(fake: Fake) -> None:
    fake.judges("unknown")
    result = fake.test(PASSES)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_lock.py::test_lock passed, but UNKNOWN — nobody acquired the lock (data kept)"])
    fake.judges("violation")
    assert "passed, but" not in str(fake.test(PASSES).stdout)


def test_a_valid_run_that_lost_data_is_told_of_a_test_that_passes(fake: Fake) -> None:
    fake.judges("valid", hides=LOST)
    result = fake.test(ASSERTS)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*test_lock.py::test_lock passed, but VALID — *, but {LOST} (data broken)"])
    fake.judges("valid")
    assert "passed, but" not in str(fake.test(ASSERTS).stdout)


def test_the_author_s_interpreter_and_modules_are_named_with_the_lock(fake: Fake) -> None:
    fake.pytester.syspathinsert(fake.pytester.mkdir("src"))
    fake.test(ASSERTS)
    (call,) = fake.calls
    assert (call["command"], call["nemesis"], call["duration"], call["name"]) == ("test", "partition", "20s", "MyLock")
    env, path, python, start, target = shlex.split(call["lock-command"])
    assert (env, python, target) == ("env", sys.executable, "my_pkg.locks:MyLock")
    assert (Path(start) / "__main__.py").is_file()
    places = path.removeprefix("PYTHONPATH=").split(":")
    assert {str(fake.pytester.path / "src"), str(fake.pytester.path)} <= set(places)
    assert not [place for place in places if place.endswith("site-packages")]


def test_a_class_is_named_by_itself_and_options_are_written_as_the_command_line_has_them(fake: Fake) -> None:
    fake.test(
        """
class Locks:
    class Mine: ...
def test_lock(fencepost):
    fencepost.run(Locks.Mine, node_timeout="50ms", disks=True, clocks=False, renewal=None, clients=3)
"""
    )
    (call,) = fake.calls
    assert shlex.split(call["lock-command"])[-1] == "test_lock:Locks.Mine"
    assert (call["name"], call["node-timeout"], call["disks"], call["clients"]) == ("Locks.Mine", "50ms", "", "3")
    assert not {"clocks", "renewal", "seed"} & call.keys()


def test_a_lock_that_fencepost_knows_needs_no_class(fake: Fake) -> None:
    fake.test("def test_lock(fencepost): fencepost.run(lock='redlock')").assert_outcomes(passed=1)
    assert fake.calls[0]["lock"] == "redlock"
    assert "lock-command" not in fake.calls[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nemesis='none'", 'run() needs a lock: run("package.module:Class", …)'),
        ("'my_pkg.locks'", "'my_pkg.locks' names no lock; write package.module:Class"),
        ("lambda nodes: None", "*cannot be imported by its name; give a class or a function of a module"),
        ("'a:B', expect='violation'", "expect is not for tests to choose: a test looks at the run's verdict"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_starts(call: str, message: str, fake: Fake) -> None:
    result = fake.test(f"def test_lock(fencepost): fencepost.run({call})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"fencepost: {message}"])
    assert not (fake.folder / "calls").exists()


def test_markers_give_defaults_and_the_command_line_has_the_last_word(fake: Fake) -> None:
    fake.test(
        """
import pytest
@pytest.mark.fencepost(nemesis="pause", clients=3, require="lock+data", seed=5)
class TestLock:
    @pytest.mark.fencepost(nemesis="crash")
    def test_lock(self, fencepost):
        fencepost.run("a:B", clients=4)
""",
        *("--fencepost-seed=9", "--fencepost-cluster=process", "--fencepost-require=exclusion", "--strict-markers"),
    )
    (call,) = fake.calls
    assert [call[name] for name in ("nemesis", "clients", "seed", "cluster", "require")] == [
        *("crash", "4", "9", "process", "exclusion")
    ]


def test_the_seed_of_a_failed_test_is_tried_first_until_the_test_passes(fake: Fake) -> None:
    two_runs = """
def test_lock(fencepost):
    first, second = fencepost.run("a:B", seed=1), fencepost.run("a:C")
    assert second.valid
"""
    fake.judges("violation")
    fake.test(two_runs)
    fake.test(two_runs)
    fake.judges("valid")
    fake.test(two_runs)
    fake.test(two_runs)
    assert [call.get("seed") for call in fake.calls] == ["1", None, "1", "4711", "1", "4711", "1", None]


def test_without_a_cache_nothing_is_promised(fake: Fake) -> None:
    fake.judges("violation")
    assert "tried first" not in str(fake.test(ASSERTS, "-p", "no:cacheprovider").stdout)


def test_what_the_machine_lacks_skips_the_test_with_the_reason(fake: Fake) -> None:
    fake.answers({"schema": 2, "verdict": None, "error": {"kind": "lacking", "text": "no Docker engine answers"}})
    result = fake.test(ASSERTS, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * fencepost: no Docker engine answers"])


@pytest.mark.parametrize("kind", ["usage", "environment", "internal", "a new kind"])
def test_any_other_error_fails_the_test_in_one_line(kind: str, fake: Fake) -> None:
    fake.answers({"schema": 2, "verdict": None, "error": {"kind": kind, "text": "no redis-server on PATH"}})
    result = fake.test(ASSERTS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fencepost: no redis-server on PATH"])
    assert "Traceback" not in str(result.stdout)


def test_an_option_that_fencepost_does_not_know_is_told_in_its_own_words(fake: Fake) -> None:
    fake.says("a line before\nfencepost: unrecognized arguments: --nemsis=x; see `fencepost test --help`\n", 254)
    fake.test(ASSERTS).stdout.fnmatch_lines(["fencepost: unrecognized arguments: --nemsis=x; see *"])


def test_a_result_of_another_schema_is_no_result(fake: Fake) -> None:
    fake.answers({"schema": 3, "verdict": "valid"})
    result = fake.test(ASSERTS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fencepost: this fencepost writes results of schema 3, *"])


def test_without_the_command_the_message_says_how_to_install_it(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST")
    monkeypatch.setattr(sys, "executable", str(fake.folder / "python"))
    monkeypatch.setenv("PATH", str(fake.folder))
    result = fake.test(ASSERTS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fencepost: there is no command `fencepost`: install*`fencepost setup`*"])


def test_the_command_can_be_named_in_three_ways(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The closest to the keyboard counts."""
    command = [sys.executable, str(Path(__file__).with_name("fake_fencepost.py"))]
    monkeypatch.setenv("FENCEPOST", "nobody-has-this")
    fake.test(ASSERTS).stdout.fnmatch_lines(
        ["fencepost: `nobody-has-this` cannot be started: No such file or directory"]
    )
    fake.pytester.makeini(f"[pytest]\nfencepost_command = {shlex.join(command)}\n")
    fake.test(ASSERTS).assert_outcomes(passed=1)
    fake.test(ASSERTS, "--fencepost-command=nobody-has-that").stdout.fnmatch_lines(["*`nobody-has-that` cannot*"])


def test_python_s_own_settings_stay_with_the_author(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """fencepost has an interpreter and packages of its own; the author's modules must not get in their way."""
    script = fake.folder / "says_environment"
    script.write_text('#!/bin/sh\necho "PYTHONPATH is ${PYTHONPATH-unset}" >&2\nexit 255\n')
    script.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    fake.test(ASSERTS, f"--fencepost-command={script}").stdout.fnmatch_lines(["fencepost: PYTHONPATH is unset"])


def test_junit_reports_have_the_runs_as_properties(fake: Fake) -> None:
    fake.judges("violation")
    fake.test(ASSERTS, "--junitxml=junit.xml")
    found = ElementTree.parse(fake.pytester.path / "junit.xml").iter("property")
    told = {each.get("name"): each.get("value") for each in found}
    assert told["fencepost_verdict"] == "violation"
    assert told["fencepost_seed"] == "4711"
    assert told["fencepost_folder"] == str(fake.runs[0])
    assert told["fencepost_replay"] == "fencepost test --schedule schedule.json"
    assert told["fencepost_page"] == f"{fake.runs[0]}/report.html"


SAYS_EXTRAS = """
def pytest_runtest_logreport(report):
    for extra in getattr(report, "extras", []):
        print("EXTRA", extra["name"], extra["format_type"], extra["content"])
"""


def test_a_report_of_pytest_html_links_to_the_page_of_a_failed_test(fake: Fake) -> None:
    fake.pytester.makeconftest(SAYS_EXTRAS)
    fake.judges("violation")
    told = str(fake.test(ASSERTS, "-s").stdout)
    assert f"EXTRA fencepost seed 4711 url file://{fake.runs[0]}/report.html" in told
    fake.judges("valid")
    assert "EXTRA" not in str(fake.test(ASSERTS, "-s").stdout)


def test_workers_of_xdist_report_as_one_does(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    fake.judges("violation")
    fake.pytester.makepyfile(test_lock=ASSERTS)
    result = fake.pytester.runpytest_subprocess("-p", "pytest_fencepost.plugin", "-n", "1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- fencepost -*", f"picture  {fake.runs[0]}/report.html"])
    kept = [json.loads(path.read_text()) for path in fake.pytester.path.glob(".pytest_cache/d/fencepost/*.json")]
    assert kept == [{"test": "test_lock.py::test_lock", "seeds": [4711]}]
