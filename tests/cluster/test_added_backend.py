"""A toy backend from outside the source tree (`tests/toys/cluster/backends`): one file, and no other edit."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from cluster.backend_registry import backends, choose_site, everywhere
from cluster.lifetime import RunState
from cluster.polling import becomes_true
from cluster.site import Site
from fencepost.extensions import VARIABLE
from fencepost.files import matching
from tests.cluster.reapers import WITHIN_S, reaper_of
from tests.harness import runs
from tests.harness.second_tries import spared
from tests.specs import spec_of

TOYS = Path(__file__).parents[1] / "toys"
NAMED = ["--cluster", "open"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the toy has a folder for each of its runs."""
    monkeypatch.setenv(VARIABLE, str(TOYS))
    monkeypatch.setenv("OPEN_PLACES", str(tmp_path / "places"))
    (tmp_path / "places").mkdir()
    return tmp_path / "places"


def test_a_run_on_a_toy_backend_says_where_it_was_and_leaves_nothing(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, run = spared(tmp_path, [*runs.short_run("--nemesis", "crash:restart-delay=100ms"), *NAMED])
    assert code == 0, out
    assert " in the open, 3 clients" in " ".join(out.split()), "before it starts"
    environment = json.loads((run.path / "environment.json").read_text())
    assert environment["cluster"]["backend"] == "open"
    assert environment["isolation"] == {"by": "passwords"}
    assert "docker" not in environment["packages"], "which belongs to another backend"
    assert " in the open, resource on redis" in (run.path / "report.html").read_text()
    assert "--cluster open" in out, "the command that repeats the run"
    assert list(places.iterdir()) == []
    assert "{auto,process,docker,elsewhere,open}" in runs.fencepost(tmp_path, "test", "--help")[1]
    assert "open air" in runs.fencepost(tmp_path, "doctor")[1]
    monkeypatch.delenv(VARIABLE)
    code, out, err = runs.fencepost(tmp_path, "analyze", str(run.path))
    assert code == 0, out + err
    code, _, err = runs.fencepost(tmp_path, *runs.short_run(), *NAMED)
    assert (code, err.count("\n")) == (254, 1)
    assert "'open' is not one of auto, process" in err


def test_what_a_killed_run_had_in_a_toy_backend_is_removed(places: Path, tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "none", "--duration", "60s"), *NAMED)
    try:
        assert becomes_true(lambda: matching(tmp_path, "tmp/fencepost-*/*/addresses.json") != [], within_s=60)
        assert len(list(places.iterdir())) == 1
        code, out, err = runs.fencepost(tmp_path, "shell", "--", "true")
        assert (code, out) == (0, "")
        assert f"in the open, with {places}/" in err
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert becomes_true(lambda: not list(places.iterdir()) and not runs.state_left(tmp_path), within_s=WITHIN_S)


def test_a_sweep_finds_what_the_reaper_did_not_remove(places: Path, tmp_path: Path) -> None:
    """In a process of its own: this one knows the backends without the toy."""
    (parent := tmp_path / "tmp" / f"fencepost-{os.getuid()}").mkdir(parents=True, mode=0o700)
    (place := places / "of a dead run").mkdir()
    state = RunState.create("dead", parent=parent, site=Site("open", place=str(place)))
    reaper = reaper_of(state.path)
    assert reaper is not None
    reaper.kill()
    assert state._lock is not None
    os.close(state._lock)
    code, out, err = runs.fencepost(tmp_path, "clean")
    assert code == 0, out + err
    assert f"removed {place}" in " ".join(out.split())
    assert not place.exists()
    assert not state.path.exists()


def test_only_ranked_backends_are_chosen_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Last(type(everywhere())):  # type: ignore[misc]
        rank = None

        def find_site(self, *_: object, **__: object) -> Site:
            raise AssertionError("it is asked although it was not named")

    known = {**backends(), "last": Last()}
    monkeypatch.setattr("cluster.backend_registry.backends", lambda: known)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    site = choose_site("auto", spec_of(("n1",), ("c1",)))
    assert (site.backend, "no Docker engine answers" in str(site.passed_over)) == ("process", True)
    with pytest.raises(AssertionError):
        choose_site("last", spec_of(("n1",), ("c1",)))
