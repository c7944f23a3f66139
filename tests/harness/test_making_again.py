"""Replay and shrink, as a user meets them, on real servers."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import fencepost
from harness.cli.main import run as run_here
from nemesis.base import Topology
from nemesis.schedule import load_schedule
from tests.harness import runs
from tests.harness.second_tries import caught, first_that_counts

THREE_FAULTS = """{"schema_version":1,"seed":7,"spec":"pause","topology":{"clients":["c1","c2","c3"],\
"nodes":["n1","n2","n3"],"ttl_ms":600},"duration_ms":2500,"faults":[
{"id":"f1","at_ms":50,"duration_ms":50,"nemesis":"crash","fault":{"nodes":["n1"]}},
{"id":"f2","at_ms":150,"duration_ms":50,"nemesis":"latency","fault":{"kind":"delay","targets":"one-client",\
"direction":"both","links":[["c1","n2"]],"delay_ms":20}},
{"id":"f3","at_ms":1100,"duration_ms":1100,"nemesis":"pause","fault":{"inside":true,"clients":["c1","c2","c3"]}}
]}
"""
SMALL = ["--clients", "3", "--nodes", "3", "--ttl", "600ms", "--duration", "2500ms", "--recovery", "300ms"]
TOPOLOGY = Topology(("c1", "c2", "c3"), ("n1", "n2", "n3"), 600)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of which the last one of three faults makes a client outlive its lease."""
    folder = tmp_path_factory.mktemp("again")
    (folder / "three.json").write_text(THREE_FAULTS)
    given = ["--cluster", "process", "--lock", "redlock", "--seed", "7", "--schedule", str(folder / "three.json")]
    code, said, run = caught(folder, ["test", *given, *SMALL, "--require", "exclusion"])
    assert code == 1, said
    return run.path


def seconds_on_this_machine(source: Path) -> float:
    """How long the run took from its first file to its last: what a busy machine makes of two seconds."""
    return (source / "report.html").stat().st_mtime - (source / "config.json").stat().st_mtime


def newest(source: Path) -> Path:
    return (source.parent / "latest").resolve()


def home(source: Path) -> Path:
    """The folder in which the commands are given."""
    return source.parent.parent.parent


def test_a_replay_plays_the_same_bytes_names_its_origin_and_says_whether_the_same_came_of_it(
    source: Path, tmp_path: Path
) -> None:
    # Again, if nobody comes in while a client outlives its lease.
    code, out, err = first_that_counts(
        tmp_path, lambda _: runs.fencepost(home(source), "replay", source.name), lambda ended: ended[0] == 1
    )
    assert code == 1, out + err
    assert "(overlap:client) happened again in 1 of 1 replay." in out
    again = newest(source)
    assert again != source
    assert (again / "schedule.json").read_bytes() == (source / "schedule.json").read_bytes()
    before, after = (json.loads((path / "config.json").read_text()) for path in (source, again))
    assert after.pop("schedule") == str(source / "schedule.json")
    assert Path(before.pop("schedule")).name == "three.json"
    assert after == before


@pytest.mark.timeout(600)
def test_shrinking_leaves_the_one_fault_that_matters_short_and_playable(source: Path) -> None:
    folder = home(source)
    limit_s = min(max(120, 24 * seconds_on_this_machine(source)), 500)
    # One play in which nobody enters in time after the pause must not decide that other faults are needed.
    given = ["--repeats", "3", "--needed", "1", "--limit", f"{limit_s:.0f}s", "--output", "small.json"]
    before = set(source.parent.glob("2*"))
    code, out, err = runs.fencepost(folder, "shrink", source.name, *given, timeout_s=limit_s + 60)
    assert code == 0, out + err
    assert "1 of 3 faults remained" in out, out
    assert "pause a client inside a section (pause f3)" in out
    assert [planned.id for planned in load_schedule(folder / "small.json", TOPOLOGY).faults] == ["f3"]

    (kept,) = set(source.parent.glob("2*")) - before
    assert kept == newest(source)
    assert (kept / "schedule.json").read_bytes() == (folder / "small.json").read_bytes()
    assert (kept / "report.html").exists()
    assert any(f.kind == "overlap" and f.blame == "client" for f in fencepost.load(kept).verdict.findings)

    record = json.loads((folder / "small.tries.json").read_text())
    assert record["kind"] == "overlap:client"
    assert record["tries"][0]["step"] == "the whole schedule"
    assert record["confirmed"]["seen"] == 1
    assert runs.state_left(folder) == []


def test_ctrl_c_while_shrinking_writes_the_best_found_so_far_and_says_so(source: Path, tmp_path: Path) -> None:
    shrinking = runs.start(
        home(source), "shrink", str(source), "--needed", "1", "--output", str(tmp_path / "best.json")
    )
    assert shrinking.stdout is not None
    lines = []
    for line in shrinking.stdout:
        lines.append(line)
        if line.rstrip().endswith("kept"):
            break
    shrinking.send_signal(signal.SIGINT)
    code, out, err = runs.finish(shrinking)
    assert code == 2, "".join(lines) + out + err
    assert "interrupted: this is the best so far" in out
    assert "not confirmed by further runs" in out
    assert {"f3"} <= {planned.id for planned in load_schedule(tmp_path / "best.json", TOPOLOGY).faults}
    assert runs.state_left(home(source)) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay", "nothing"], "there is no run folder nothing"),
        (["replay", "RUN", "--times", "0"], "--times"),
        (["replay", "RUN", "--lock", "redlok"], "redlock"),
        (["shrink", "RUN", "--repeats", "0"], "--repeats"),
        (["shrink", "RUN", "--needed", "4"], "--needed 4 of --repeats 3 can never be seen"),
        (["shrink", "RUN", "--limit", "soon"], "--limit: 'soon' is not a duration"),
        (["shrink", "RUN", "--kind", "overlap:lock"], "--kind overlap:lock: this run has no such finding"),
        (["shrink", "RUN", "--output", "/no/such/folder/x.json"], "/no/such/folder/x.json cannot be written"),
        (["shrink"], "RUN"),
    ],
)
def test_bad_input_is_one_clear_line_and_254_before_anything_starts(
    source: Path, arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [str(source) if word == "RUN" else word for word in arguments]
    assert run_here(given) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
