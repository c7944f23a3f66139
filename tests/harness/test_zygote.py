"""Clients are forked by a process that has imported what they need, and depend on it in nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.run.zygote import UNKNOWN, Process, Zygote

END_WITHIN_S = 60.0


class Clients:
    """Clients that wait for their specification until they are given it."""

    def __init__(self, zygote: Zygote, folder: Path) -> None:
        self._zygote = zygote
        self._folder = folder
        self.started: list[Process] = []

    def start(self) -> Process:
        number = len(self.started)
        os.mkfifo(self._folder / f"c{number}.spec.json")
        client = self._zygote.fork(self._folder / f"c{number}.spec.json", self.log(number))
        self.started.append(client)
        return client

    def give(self, number: int, spec: str) -> None:
        (self._folder / f"c{number}.spec.json").write_text(spec)

    def log(self, number: int) -> Path:
        return self._folder / f"c{number}.log"


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    with Zygote(os.environ) as zygote:
        clients = Clients(zygote, tmp_path)
        yield clients
        for client in clients.started:
            if client.poll() is None:
                os.kill(client.pid, signal.SIGKILL)
                client.wait(END_WITHIN_S)


def test_a_client_leads_a_session_of_its_own_and_prints_to_its_log(clients: Clients) -> None:
    one, other = clients.start(), clients.start()
    assert [os.getsid(client.pid) for client in (one, other)] == [one.pid, other.pid]
    clients.give(1, "no specification")
    assert other.wait(END_WITHIN_S) == 1
    assert "DecodeError" in clients.log(1).read_text()
    assert clients.log(0).read_text() == ""
    assert one.poll() is None


def test_how_a_client_ended_is_known_and_it_is_no_zombie(clients: Clients) -> None:
    client = clients.start()
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(0.01)
    os.killpg(client.pid, signal.SIGKILL)
    assert client.wait(END_WITHIN_S) == -signal.SIGKILL == client.poll()
    assert not psutil.pid_exists(client.pid)


def test_a_killed_zygote_takes_no_client_along_and_another_one_forks_the_next(clients: Clients) -> None:
    first = clients.start()
    zygote = psutil.Process(first.pid).parent()
    assert zygote is not None
    zygote.kill()
    assert first.poll() is None
    second = clients.start()
    assert psutil.Process(second.pid).ppid() != zygote.pid
    os.killpg(first.pid, signal.SIGKILL)
    os.killpg(second.pid, signal.SIGTERM)
    assert first.wait(END_WITHIN_S) == UNKNOWN
    assert second.wait(END_WITHIN_S) == -signal.SIGTERM


def test_the_zygote_ends_with_the_run(tmp_path: Path) -> None:
    with Zygote(os.environ) as zygote:
        client = zygote.fork(tmp_path / "none.spec.json", tmp_path / "c0.log")
        client.wait(END_WITHIN_S)
        (process,) = (each for each in psutil.Process().children() if "workloads.zygote" in each.cmdline())
    assert not process.is_running()
