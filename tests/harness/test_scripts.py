"""Scripted experiments, as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

import fencepost
from cluster.lifetime import state_parent
from harness.campaign.folder import RunLine
from harness.cli.main import run
from harness.scripts.experiment import shipped_experiments
from harness.store.append_log import read_lines
from harness.store.run_folder import RunFolder
from tests.harness import runs
from tests.harness.second_tries import first_that_counts, script

OFTEN = {
    *("crash-without-persistence", "clean-shutdown-with-aof", "crash-with-aof-everysec"),
    *("restart-after-the-ttl", "restart-within-the-ttl", "clock-step", "clock-step-elsewhere"),
    *("power-cut-with-aof-everysec", "power-cut-with-aof-always"),
    *("fencing-of-writes-alone", "fencing-of-reads-and-writes", "fencing-by-the-unique-value"),
    *("late-write", "late-write-of-a-dead-client"),
    *("client-clock-step-by-the-wall", "failover", "failover-by-sentinel"),
}
"""Those that every test run plays; `fencepost claims --quick` plays all of them every night."""

SHIPPED = [
    pytest.param(
        name,
        marks=[
            *([pytest.mark.needs("ext4")] if shipped.config().disks else []),
            *([pytest.mark.needs("clock")] if shipped.config().clocks else []),
        ],
    )
    for name, shipped in shipped_experiments().items()
    if name in OFTEN
]


READ_BELOW = "crash-without-persistence"
"""Its run on processes is asked more, in a test of its own."""

_NOT_ON_DOCKER = ("fencing", "late", "client-clock", "restart-within-the-ttl")
ON_DOCKER = [each for each in SHIPPED if not any(word in str(each.values) for word in _NOT_ON_DOCKER)]
"""Experiments on fencing and late writes concern only the resource, those on a client's clock only the client, and both
are the same on both backends. `restart-after-the-ttl` starts a container later, too."""


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *(pytest.param(*each.values, "process", marks=each.marks) for each in SHIPPED if each.values != (READ_BELOW,)),
        *(pytest.param(*each.values, "docker", marks=(*each.marks, pytest.mark.needs("engine"))) for each in ON_DOCKER),
    ],
)
def test_the_expectation_of_every_shipped_experiment_holds(name: str, backend: str, tmp_path: Path) -> None:
    folder, (code, out, err) = script(tmp_path, name, "--cluster", backend)
    assert runs.processes_of(runs.only_run(folder)) == []
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("name", "otherwise"),
    [
        ("crash-without-persistence", ["--persistence", "aof-always"]),
        ("clean-shutdown-with-aof", ["--persistence", "none"]),
        ("fencing-of-writes-alone", ["--fencing", "all"]),
    ],
)
def test_a_configuration_that_defeats_the_claim_fails_the_experiment(
    name: str, otherwise: list[str], tmp_path: Path
) -> None:
    code, out, err = first_that_counts(
        tmp_path,
        lambda place: runs.fencepost(place, "script", name, "--cluster", "process", *otherwise),
        lambda ended: ended[0] == 1,
    )
    assert code == 1, out + err
    assert "— FAILED" in out


def test_the_experiments_that_are_played_often_exist() -> None:
    assert shipped_experiments().keys() >= OFTEN


def test_a_scripted_run_leaves_the_same_files_as_a_random_run_and_is_replayed(tmp_path: Path) -> None:
    home, (code, out, err) = script(tmp_path, READ_BELOW, "--cluster", "process")
    folder = runs.only_run(home)
    assert runs.processes_of(folder) == []
    assert code == 0, out + err
    assert not (home / "tmp" / state_parent().name / folder.name).exists()
    judged = fencepost.load(folder)
    assert judged.verdict.verdict == "violation"
    assert judged.ops[["client", "f", "outcome"]].astype(str).values.tolist() == [
        ["c1", "acquire", "ok"],
        ["c2", "acquire", "ok"],
    ]
    crash = next(event for event in judged.faults.itertuples() if event.nemesis == "crash")
    assert (crash.nodes, crash.keys_at_stake, crash.holds) == (("n3",), ("k1",), True)
    assert judged.verdict.figures["opportunities"].violated_opportunities == 1
    page = (folder / "report.html").read_text()
    assert "has forgotten the lease and grants it again" in page
    assert "kill n3" in page
    assert json.loads((folder / "experiment.json").read_text())["expects"] in out
    assert "script crash-without-persistence" in out.partition("replay")[2]
    before = (folder / "verdict.json").read_bytes()
    assert runs.fencepost(home, "analyze", str(folder))[0] == 1
    assert (folder / "verdict.json").read_bytes() == before
    code, out, err = first_that_counts(
        tmp_path / "again", lambda _: runs.fencepost(home, "replay", folder.name), lambda ended: ended[0] == 1
    )
    assert code == 1, out + err
    assert "happened again in 1 of 1 replay." in out


HEAD = """
from harness.scripts.expect import *
from harness.scripts.experiment import Stage, experiment

@experiment(expect=no_overlaps() & sections(1), ttl_ms=1000)
def mine(stage: Stage) -> None:
    '''My own claim.'''
    one = stage.client("c1")
"""


def own(tmp_path: Path, *lines: str) -> str:
    """A user's own experiment with these steps."""
    (tmp_path / "own.py").write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    return "own.py:mine"


def test_a_users_own_experiment_is_a_function_in_a_file(tmp_path: Path) -> None:
    steps = [
        "one.acquire('k1')",
        "one.pause()",
        "one.resume()",
        "one.read()",
        "one.write()",
        "one.release()",
        "one.kill()",
        "one.restart()",
    ]
    code, out, err = runs.fencepost(tmp_path, "script", own(tmp_path, *steps), "--cluster", "process")
    assert code == 0, out + err
    assert "My own claim." in out
    assert fencepost.load(runs.only_run(tmp_path)).verdict.figures["counter"].final == {"k1": 1}


def test_a_node_that_takes_seconds_to_come_back_is_back_within_the_usual_lease(tmp_path: Path) -> None:
    """As a container on a busy machine does; what happens after the end of the lease shows nothing of the lock."""
    (tmp_path / "slow.py").write_text(
        """
from harness.scripts.expect import *
from harness.scripts.experiment import Stage, experiment

@experiment(persistence="none", expect=overlaps_blamed_on("lock"))
def slow(stage: Stage) -> None:
    '''A node that forgot its lease lets a second client in.'''
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").kill().start(after="4s")
    two.sees("n3", "n4", "n5")
    two.acquire("k1")
"""
    )
    _, (code, out, err) = script(tmp_path, str(tmp_path / "slow.py"), "--cluster", "process")
    assert code == 0, out + err


MISTAKES = {
    "one.read()": "c1 is not inside and cannot read",
    "one.release()": "c1 is not inside and cannot release",
    "stage.client('c9')": "no client 'c9'",
    "one.sees('n9')": "no node 'n9'",
    "stage.wait('soon')": "'soon' is not a duration",
    "stage.nodes('n1').start()": "did not go down",
    "one.acquire('k1') and one.write()": "c1 has not read the counter",
    "one.acquire('k2')": "c1 holds k1 and cannot acquire k2 too",
    "one.pause() or one.read()": "c1 is paused and cannot read",
    "one.resume() or one.begin('read') and one.write()": "c1 is still at read and cannot write",
    "one.kill() or one.read()": "c1 is not alive",
    "stage.nodes('n2').follow('n1')": "needs replication='manual'",
    "stage.await_failover('n1')": "needs replication='sentinel'",
}


def test_an_impossible_step_is_refused_with_a_reason(tmp_path: Path) -> None:
    steps = [
        "from fencepost.errors import UsageError",
        f"for step, words in {MISTAKES!r}.items():",
        "    try:",
        "        eval(step)",
        "    except UsageError as error:",
        "        assert words in str(error), (step, error)",
        "    else:",
        "        raise AssertionError(step)",
    ]
    code, out, err = runs.fencepost(tmp_path, "script", own(tmp_path, *steps), "--cluster", "process")
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("stage.nodes('n1').kill().kill()", "n1 already went down"),
        ("1 / 0", "ZeroDivisionError: division by zero (own.py, line 9)"),
    ],
)
def test_a_mistake_in_a_script_is_one_clear_line_and_nothing_is_left(step: str, words: str, tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, "script", own(tmp_path, step), "--cluster", "process")
    assert code == 254, out + err
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert runs.processes_of(runs.only_run(tmp_path)) == []


def test_ctrl_c_ends_and_heals_an_experiment_whose_outcome_is_then_unknown(tmp_path: Path) -> None:
    process = runs.start(tmp_path, "script", own(tmp_path, "one.acquire('k1')", "stage.wait('60s')"), "--times", "2")
    deadline = time.monotonic() + 40
    while not any(log.stat().st_size for log in tmp_path.glob("results/runs/2*/clients/*.jsonl")):
        assert time.monotonic() < deadline, "c1 never acquired"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    assert "— UNKNOWN" in out
    assert runs.processes_of(runs.only_run(tmp_path)) == []


def test_each_experiment_is_played_as_often_as_asked_and_one_run_that_breaks_off_ends_no_other(tmp_path: Path) -> None:
    """The first run leaves a file and breaks off; the second one finds it."""
    steps = [
        "from fencepost.errors import BrokenEnvironmentError",
        "from pathlib import Path",
        f"marker = Path({str(tmp_path / 'marker')!r})",
        "if not marker.exists():",
        "    marker.touch()",
        "    raise BrokenEnvironmentError('the first run is no good')",
        "one.acquire('k1')",
    ]
    code, out, err = runs.fencepost(tmp_path, "script", own(tmp_path, *steps), "--times", "2", "--cluster", "process")
    assert code == 255, out + err
    assert "1 aborted, 1 held    mine" in out
    assert len(list(tmp_path.glob("results/runs/2*"))) == 2
    assert "the first run is no good" in err


def test_side_by_side_too_runs_that_break_off_are_counted_and_told(tmp_path: Path) -> None:
    steps = [
        "from fencepost.errors import BrokenEnvironmentError",
        "raise BrokenEnvironmentError('no run is any good')",
    ]
    often = ("--times", "2", "--cluster", "process", "--workers", "2")
    code, out, err = runs.fencepost(tmp_path, "script", own(tmp_path, *steps), *often)
    assert code == 255, out + err
    assert "2 aborted            mine" in out
    assert "no run is any good" in err


def test_experiments_side_by_side_go_on_in_their_folder_with_what_was_asked_for(tmp_path: Path) -> None:
    asked = ("script", own(tmp_path, "one.acquire('k1')"), "--times", "2", "--cluster", "process", "--ttl", "900ms")
    for made in (2, 0):
        code, out, err = runs.fencepost(tmp_path, *asked, "--workers", "2", "--report", "record")
        assert code == 0, out + err
        assert ("2 runs to make, 2 at once" in out) == bool(made), out
        assert "2 held               mine" in out
    lines = [line for piece in read_lines(tmp_path / "record" / "runs.jsonl", RunLine) for line in piece]
    assert {(line.seed, line.outcome) for line in lines} == {(1, "held"), (2, "held")}
    folders = [RunFolder.open(tmp_path / "results" / "runs" / line.folder) for line in lines]
    assert {each.read_config().ttl_ms for each in folders} == {900}


def test_ctrl_c_ends_all_of_several_runs_even_if_the_one_under_way_breaks_off(tmp_path: Path) -> None:
    begun, interrupted = tmp_path / "begun", tmp_path / "interrupted"
    steps = [
        "import time",
        "from fencepost.errors import BrokenEnvironmentError",
        "from pathlib import Path",
        f"Path({str(begun)!r}).touch()",
        f"while not Path({str(interrupted)!r}).exists():",
        "    time.sleep(0.01)",
        "raise BrokenEnvironmentError('an engine that does not answer')",
    ]
    process = runs.start(tmp_path, "script", own(tmp_path, *steps), "--times", "2", "--cluster", "process")
    deadline = time.monotonic() + 40
    while not begun.exists():
        assert time.monotonic() < deadline, "the steps never began"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    interrupted.touch()
    code, out, err = runs.finish(process)
    assert code == 255, out + err
    assert "an engine that does not answer" in err
    assert len(list(tmp_path.glob("results/runs/2*"))) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "which experiment?"),
        (["crash-without-persistence", "--times", "0"], "--times"),
        (["crash-without-persistence", "--report", "record"], "--report is for parallel runs"),
        (["crash-without-persistence", "--workers", "2", "--report", "own.py"], "own.py exists and is no campaign"),
        (["crash-without-persistance"], "did you mean crash-without-persistence?"),
        (["no_such_file.py"], "there is no file no_such_file.py"),
        (["empty.py"], "empty.py has no experiment"),
        (["broken.py"], "broken.py cannot be loaded: NameError"),
        (["claimless.py"], "has no docstring"),
        (["own.py:other"], "no experiment 'other'; it has mine"),
        (["crash-without-persistence", "--ttl", "1ms"], "--ttl is 1ms"),
        (["crash-without-persistence", "--lock", "redlok"], "redlock"),
    ],
)
def test_bad_input_is_one_clear_line_before_anything_starts(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("nonsense")
    (tmp_path / "claimless.py").write_text(HEAD.replace("'''My own claim.'''", "pass"))
    own(tmp_path)
    assert run(["script", *arguments, "--cluster", "process"]) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert not (tmp_path / "results").exists()


def test_the_list_shows_every_experiment_with_its_claim_and_expectation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["script", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in shipped_experiments())
    assert out.count("expected: ") == len(shipped_experiments())
