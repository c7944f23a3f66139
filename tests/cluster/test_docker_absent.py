"""Without a Docker engine: one clear line, at once."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.backend_registry import choose_site
from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import sweep_docker
from cluster.sweep import sweep, sweep_one
from fencepost.errors import BrokenEnvironmentError
from harness.cli.main import run
from tests.harness import runs
from tests.specs import spec_of


@pytest.fixture
def silent_engine(socket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A socket that accepts and never says a word."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_folder / "docker.sock"))
        listener.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket_folder}/docker.sock")
        yield


@pytest.fixture
def no_engine(socket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"unix://{socket_folder}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


def why_processes() -> str | None:
    """Why a run that may choose takes processes."""
    site = choose_site("auto", spec_of(("n1",), ("c1",)))
    assert (site.backend, site.place) == ("process", "")
    return site.passed_over


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_was_named_and_is_not_there_is_told() -> None:
    assert "no Docker engine answers at unix://" in str(why_processes())


def test_a_run_says_in_one_line_why_it_takes_processes(no_engine: str, tmp_path: Path) -> None:
    given = runs.short_run("--nemesis", "none", "--duration", "500ms", "--recovery", "0", cluster="auto")
    code, out, err = runs.fencepost(tmp_path, *given)
    assert code in (0, 2), err
    (line,) = [line for line in out.splitlines() if "as processes, because" in line]
    assert no_engine in line


def test_without_an_engine_at_the_default_socket_there_is_nothing_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr("cluster.engine_http.dialled", _refuse_to_dial)
    assert why_processes() is None


def _refuse_to_dial(*_: object) -> None:
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.usefixtures("silent_engine")
def test_a_silent_engine_is_given_up_after_about_a_second() -> None:
    took_s = []
    for _ in range(3):  # a busy machine makes single ones late
        began = time.monotonic()
        assert "timed out" in str(why_processes())
        took_s.append(time.monotonic() - began)
    assert min(took_s) < 2


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_there_is_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep_docker(lambda _: False, parent=tmp_path) == []


def test_the_error_names_the_address_and_what_to_do(no_engine: str) -> None:
    with pytest.raises(BrokenEnvironmentError) as raised:
        connect(find_engine())
    message = str(raised.value)
    assert f"no Docker engine answers at {no_engine}" in message
    assert "--cluster process" in message
    assert "\n" not in message


@pytest.mark.parametrize("address", ["nonsense://here", "tcp://[::1", "tcp://here:99999999", "http://here:port", "://"])
def test_an_address_that_is_none_is_the_same_clear_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    assert f"no Docker engine answers at {address}" in str(why_processes())
    with pytest.raises(BrokenEnvironmentError, match=re.escape(f"no Docker engine answers at {address}")):
        connect(find_engine())


@pytest.fixture
def dead_engine(socket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A socket that an engine has left behind."""
    address = f"unix://{socket_folder}/docker.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_folder / "docker.sock"))
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


def test_a_sweep_that_could_not_ask_the_engine_says_so_and_removes_the_rest(dead_engine: str, tmp_path: Path) -> None:
    parent = tmp_path / "state"
    (parent / "dead").mkdir(parents=True)
    parent.chmod(0o700)
    seen: list[str] = []

    def other(_: object) -> list[str]:
        seen.append("asked")
        return ["something else"]

    swept = sweep([sweep_docker, other], parent=parent)
    assert [run.run_id for run in swept.runs] == ["dead"]
    assert swept.others == ("something else",)
    assert (swept.stuck, len(swept.unasked)) == ((), 1)
    assert dead_engine in swept.unasked[0]
    assert "Connection refused" in swept.unasked[0]
    assert not (parent / "dead").exists()


@pytest.mark.usefixtures("dead_engine")
def test_a_reaper_that_cannot_ask_the_engine_removes_the_rest_at_once(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "dead").mkdir()
    began = time.monotonic()
    sweep_one(tmp_path / "state" / "dead", [sweep_docker])
    assert time.monotonic() - began < 10
    assert not (tmp_path / "state" / "dead").exists()


@pytest.mark.usefixtures("dead_engine")
def test_clean_says_what_it_could_not_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert run(["clean"]) == 255
    out, _ = capfd.readouterr()
    assert out.startswith("what dead runs left there is not known: no Docker engine answers at unix://")
    assert len(out.splitlines()) == 1
