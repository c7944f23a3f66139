"""A stop is obeyed within seconds while a verb waits for a server that runs and does not answer."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.polling import VERB_LIMIT_S, becomes_true
from cluster.programs import find_server
from nemesis.schedule import Planned
from tests.harness import runs

SICK = "this server will never answer"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter: servers do not run as root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    ("sick_at", "down_ms", "duration"),
    [
        pytest.param(1, 300, "30s", id="as it is brought up"),
        pytest.param(2, 300, "30s", id="as a fault is healed"),
        pytest.param(2, 30_000, "2s", id="as everything is healed in the end"),
    ],
)
def test_a_stop_does_not_wait_for_a_server_that_does_not_answer(
    tmp_path: Path, open_folder: Path, sick_at: int, down_ms: int, duration: str
) -> None:
    program = _sick_at_its_start(sick_at, open_folder)
    schedule = runs.schedule_of(tmp_path, Planned("f1", 200, down_ms, "crash", {"nodes": ["n1"]}))
    process = runs.start(
        tmp_path, *runs.short_run("--schedule", str(schedule), "--duration", duration, "--server", str(program))
    )
    try:
        assert becomes_true(lambda: _is_sick(tmp_path), within_s=60, every_s=0.02)
        asked_ns = time.monotonic_ns()
        process.terminate()
        code, out, err = runs.finish(process)
        assert code in (2, 255), out + err
        run = runs.only_run(tmp_path)
        # What the verb alone would have waited for the server.
        assert 0 < (ended_ns(run) - asked_ns) / 1e9 < VERB_LIMIT_S
        assert runs.is_gone(tmp_path, run)
    finally:
        process.kill()
        process.communicate()


def ended_ns(run: Path) -> int:
    """When the run was over: the command judges only after that. One that was called off before its load has one time,
    that of its end."""
    timeline = json.loads((run / "timeline.json").read_text())
    ended: int = timeline["end_ns"] or timeline["start_ns"]
    return ended


def _sick_at_its_start(number: int, folder: Path) -> Path:
    """A Redis whose node n1 runs and does not answer when it is started for this time."""
    real = folder / "real" / "redis-server"
    real.parent.mkdir()
    shutil.copy2(find_server("redis").path, real)
    program = folder / "redis-server"
    program.write_text(
        f"""#!/bin/sh
        case "$PWD" in */n1) echo started >> starts ;; esac
        if [ "$(grep -c started starts 2>/dev/null)" = {number} ]; then
            echo {SICK}
            exec sleep 600
        fi
        exec {real} "$@"
        """
    )
    program.chmod(0o755)
    return program


def _is_sick(folder: Path) -> bool:
    return any(SICK in log.read_text() for log in folder.glob("results/runs/2*/logs/n1.log"))
