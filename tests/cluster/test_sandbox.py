"""The launcher of a sandbox, by itself: what a command in it sees, and how both end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from cluster.disk import make_disks, remove_disks
from cluster.lifetime import RunState
from cluster.polling import becomes_true, is_readable
from cluster.run_user import Owner
from cluster.sandbox import Refusal, Sandbox, launch, why_not
from tests.cluster.disks import traces
from tests.cluster.processes import is_gone

pytestmark = pytest.mark.needs("sandbox")
Launch = Callable[..., Sandbox]


@pytest.fixture
def start() -> Iterator[Launch]:
    """Start a shell script in a sandbox: `$1` is the descriptor to read orders from, `$2` the one to answer on."""
    started: list[Sandbox] = []

    def start(script: str, environment: dict[str, str] | None = None) -> Sandbox:
        sandbox = launch(["/bin/sh", "-c", script, "sh"], environment or {})
        assert not isinstance(sandbox, Refusal), sandbox
        started.append(sandbox)
        return sandbox

    yield start
    for each in started:
        each.launcher.kill()
        each.launcher.wait()
        for descriptor in (each.orders, each.messages):
            try:
                os.close(descriptor)
            except OSError:
                continue


LONG_S = 30
"""For what has to happen, however busy the machine is."""


def said(sandbox: Sandbox, within_s: float = LONG_S) -> str:
    """Everything that the command writes until it ends."""
    text, deadline = b"", time.monotonic() + within_s
    while is_readable(sandbox.messages, max(0, deadline - time.monotonic())):
        if not (data := os.read(sandbox.messages, 4096)):
            return text.decode()
        text += data
    raise AssertionError(f"it did not end; it said {text!r}")


def are_gone(processes: Sequence[psutil.Process]) -> bool:
    return becomes_true(lambda: all(map(is_gone, processes)), within_s=LONG_S)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_exit_status_of_the_command_is_that_of_the_launcher(start: Launch, script: str, status: int) -> None:
    assert start(script).launcher.wait(LONG_S) == status


def test_user_group_folder_and_environment_are_the_same_inside(start: Launch) -> None:
    sandbox = start("echo $(id -u) $(id -g) $(pwd) $MINE > /proc/self/fd/$2", {"MINE": "mine"})
    assert said(sandbox).split() == [str(os.getuid()), str(os.getgid()), os.getcwd(), "mine"]  # noqa: PTH109


def test_the_command_is_not_the_first_process_and_orphans_are_collected(start: Launch) -> None:
    orphan = "orphan=$(sleep 0.05 >&- & echo $!)"
    collected = "while [ -e /proc/$orphan ]; do sleep 0.01; done"  # a zombie would be there for ever
    assert int(said(start(f"{orphan}; {collected}; echo $$ > /proc/self/fd/$2"))) > 1


def test_when_the_pipe_to_it_is_closed_everything_ends_also_what_left_its_session(start: Launch) -> None:
    sandbox = start("setsid sleep 600 & sleep 600")
    init = psutil.Process(sandbox.init)
    assert becomes_true(lambda: len(init.children(recursive=True)) == 3)
    everyone = [init, *init.children(recursive=True)]
    os.close(sandbox.orders)
    assert are_gone(everyone)
    sandbox.launcher.wait(LONG_S)


@pytest.mark.parametrize("victim", ["launcher", "init"])
def test_a_killed_launcher_or_init_takes_everything_with_it(start: Launch, victim: str) -> None:
    sandbox = start("sleep 600 & sleep 600")
    init = psutil.Process(sandbox.init)
    assert becomes_true(lambda: len(init.children(recursive=True)) >= 2)
    everyone = [init, *init.children(recursive=True)]
    os.kill({"launcher": sandbox.launcher.pid, "init": sandbox.init}[victim], signal.SIGKILL)
    assert are_gone(everyone)
    assert said(sandbox) == ""


def test_signals_that_stop_a_command_do_not_stop_launcher_or_init(start: Launch) -> None:
    sandbox = start("read line < /proc/self/fd/$1; exit 5")
    for pid in (sandbox.launcher.pid, sandbox.init):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    os.write(sandbox.orders, b"go\n")
    assert sandbox.launcher.wait(LONG_S) == 5


def test_a_trial_leaves_nothing_behind() -> None:
    before = len(psutil.Process().children()), psutil.Process().num_fds()
    why_not.cache_clear()
    assert why_not() is None
    assert (len(psutil.Process().children()), psutil.Process().num_fds()) == before


@pytest.mark.needs("ext4")
def test_a_disk_of_another_run_can_be_taken_away_while_a_sandbox_lives(start: Launch, tmp_path: Path) -> None:
    """A mount namespace begins with a copy of every mount, and a copy keeps the disk's loop device busy."""
    with RunState.create(parent=tmp_path / "state") as state:
        disks = make_disks(state, ["n1"], "ext4", Owner.of_run())
        sandbox = start(f"grep -c {disks['n1'].path} /proc/self/mountinfo > /proc/self/fd/$2; exec sleep 600 2>&-")
        try:
            assert is_readable(sandbox.messages, LONG_S)
            assert os.read(sandbox.messages, 16) == b"1\n"
            disks["n1"].cut_power()
            disks["n1"].restore()
        finally:
            remove_disks(disks)
        assert sandbox.launcher.poll() is None
        assert traces(tmp_path) == []
