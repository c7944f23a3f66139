"""Without a Docker engine: one clear line, at once."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.engine import connect, engine_answers, sweep_docker
from fencepost.errors import BrokenEnvironmentError


@pytest.fixture
def silent_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A socket that accepts and never says a word."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "docker.sock"))
        listener.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        yield


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


@pytest.mark.usefixtures("no_engine")
def test_no_engine_does_not_answer() -> None:
    assert engine_answers() is False


@pytest.mark.usefixtures("silent_engine")
def test_a_silent_engine_is_given_up_after_about_a_second() -> None:
    began = time.monotonic()
    assert engine_answers() is False
    assert time.monotonic() - began < 2


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_there_is_nothing_to_sweep() -> None:
    assert sweep_docker(lambda _: False) == []


def test_the_error_names_the_address_and_what_to_do(no_engine: str) -> None:
    with pytest.raises(BrokenEnvironmentError) as raised:
        connect()
    message = str(raised.value)
    assert f"no Docker engine answers at {no_engine}" in message
    assert "--cluster process" in message
    assert "\n" not in message


def test_an_address_that_is_none_is_the_same_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "nonsense://here")
    assert engine_answers() is False
    with pytest.raises(BrokenEnvironmentError, match="no Docker engine answers at nonsense://here"):
        connect()
