"""Code of the user's in real runs: whatever it does to its process, that is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.schedule import Planned
from tests.harness import runs

LOCK = """
from asyncio import CancelledError
from workloads.locks.redlock import Redlock

class Mine(Redlock):
    tries = 0

    def acquire(self, key, ttl_ms):
        Mine.tries += 1
        if Mine.tries == 5:
            {ending}
        return super().acquire(key, ttl_ms)
"""

SCRIPT = """
from harness.scripts.expect import no_overlaps
from harness.scripts.experiment import Stage, experiment

@experiment(expect=no_overlaps())
def mine(stage: Stage) -> None:
    \"\"\"Nothing.\"\"\"
    print("VALID \\x1b[2J")
    {ending}
"""

EAGER = """
import os
from pathlib import Path
from workloads.locks.redlock import Redlock

class Eager(Redlock):
    opened = 0

    def __init__(self, nodes, settings):
        Eager.opened += 1
        Path("opened").mkdir(exist_ok=True)
        Path("opened", str(os.getpid())).touch()
        if {when} and Eager.opened < 3:
            raise ConnectionError("nobody is there")
        super().__init__(nodes, settings)
"""

ENDINGS = ["raise SystemExit(0)", "raise KeyboardInterrupt", "import os; os._exit(0)"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_lock_that_ends_its_client_breaks_the_run_off(ending: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOCK.format(ending=ending))
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "mine:Mine", "--nemesis", "none"))
    assert code == 255, out + err
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in out + err
    assert runs.is_gone(tmp_path, runs.only_run(tmp_path))
    code, out, err = runs.fencepost(tmp_path, "analyze")
    assert code == 2, out + err


def test_a_lock_whose_acquire_is_cancelled_has_an_unknown_outcome_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOCK.format(ending="raise CancelledError"))
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "mine:Mine", "--nemesis", "none"))
    assert code == 0, out + err
    assert "CancelledError" in (runs.only_run(tmp_path) / "clients" / "c1.1.jsonl").read_text()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_that_ends_its_process_breaks_the_run_off(ending: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT.format(ending=ending))
    code, out, err = runs.fencepost(tmp_path, "script", "mine.py", "--cluster", "process")
    assert code == 255, out + err
    assert len(err.splitlines()) == 1, err
    assert "\x1b" not in out + err
    assert "VALID" in (runs.only_run(tmp_path) / "logs" / "harness.log").read_text()


def test_what_a_lock_printed_is_in_its_clients_log_although_the_client_is_killed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOCK.format(ending="print('acquiring')"))
    fault = Planned("f1", 500, 500, "crash", {"clients": ["c1"]})
    killed = ["--schedule", str(runs.schedule_of(tmp_path, fault))]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "mine:Mine", *killed))
    assert code in (0, 2), out + err
    assert "acquiring" in (runs.only_run(tmp_path) / "logs" / "c1.1.log").read_text()


def test_a_restarted_client_whose_lock_cannot_connect_tries_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(EAGER.format(when='len(os.listdir("opened")) > 3'))
    kill = ["--nemesis", "crash:targets=clients,restart-delay=0,interval=30s", "--duration", "8s"]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "mine:Eager", *kill))
    assert code == 0, out + err
    second_lives = list((runs.only_run(tmp_path) / "logs").glob("c*.2.log"))
    assert second_lives
    for log in second_lives:
        assert log.read_text().count("nobody is there; it is tried again") == 2
        assert (log.parent.parent / "clients" / log.with_suffix(".jsonl").name).stat().st_size > 0


def test_a_lock_that_cannot_connect_at_the_start_breaks_the_run_off(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(EAGER.format(when="True"))
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "mine:Eager", "--nemesis", "none"))
    assert code == 255, out + err
    assert "ConnectionError: nobody is there" in err
