"""Limits of the shell that are too small for a run: one line before anything starts."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.polling import is_readable
from cluster.run_processes import RUN_VARIABLE, end_processes
from fencepost.boundary import exit_code_of
from fencepost.errors import UsageError
from fencepost.memory import check_processes
from tests.harness.runs import ROOT


def with_limit(limit: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'ulimit {limit} && exec "$@"', "sh", sys.executable, "-m", "fencepost", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "clients", "words"),
    [
        ("-n 300", "10", "open files, and this shell allows 300 (ulimit -Hn)"),
        ("-n 4096", "170", "open files, and this shell allows 4,096 (ulimit -Hn)"),
        ("-u 50", "10", "processes and threads, and this shell allows 50 (ulimit -u)"),
        ("-t 20", "10", "of CPU time, and this shell allows 20 (ulimit -t)"),
        ("-v 1000000", "10", "of address space, and this shell allows 976 (ulimit -v)"),
    ],
)
def test_a_limit_that_is_too_small_is_named_before_anything_starts(
    limit: str, clients: str, words: str, tmp_path: Path
) -> None:
    done = with_limit(limit, tmp_path, "test", "--cluster", "process", "--lock", "redlock", "--clients", clients)
    assert done.returncode == 254, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_ordinary_users_limit_counts_what_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the room for its threads OpenBLAS would send SIGINT, which looks like Ctrl-C."""
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        monkeypatch.setattr(os, "geteuid", lambda: 1)
        monkeypatch.setattr(Path, "stat", lambda path: os.stat_result((0, 0, 0, 0, 1, 0, 0, 0, 0, 0)))
        monkeypatch.setattr(resource, "getrlimit", lambda _: (2, 2))
        with pytest.raises(UsageError, match=r"this shell allows 2 \(ulimit -u\), of which (\d+) are taken") as told:
            check_processes()
    finally:
        sleeping.kill()
        sleeping.wait()
    taken = re.search(r"of which ([\d,]+) are taken", str(told.value))
    assert taken is not None
    assert int(taken[1].replace(",", "")) >= 2, "this process and the one that sleeps"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    check_processes()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4_096, 4_096))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check_processes()


@pytest.mark.parametrize("kib", [120_000, 140_000, 150_000, 300_000, 524_287])
def test_too_little_memory_is_told_in_one_line_before_a_library_ends_the_process(tmp_path: Path, kib: int) -> None:
    """With the first of them OpenBLAS would call exit(1), which is a verdict; with the second, it would send SIGINT."""
    done = with_limit(f"-v {kib}", tmp_path, "analyze", "nothing")
    assert done.returncode == 254, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"and this shell allows {kib // 1024} (ulimit -v)" in done.stderr


def test_enough_memory_for_the_libraries_is_enough(tmp_path: Path) -> None:
    done = with_limit(f"-v {1024 * (512 + 16 * (os.cpu_count() or 1))}", tmp_path, "analyze", "nothing")
    assert done.returncode == 254, done
    assert "there is no run folder nothing" in done.stderr


def test_memory_that_runs_out_later_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the traceback is kept

    def judge() -> int:
        raise MemoryError

    assert exit_code_of(judge) == 255
    told = capsys.readouterr().err
    assert "not enough memory, or too small a limit (ulimit -v)" in told
    assert told.count("\n") == 1


@pytest.fixture
def many_files() -> Iterator[None]:
    """More than 1,024 files are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_048), hard))
    try:
        with ExitStack() as stack:
            for _ in range(1_100):
                stack.enter_context(Path("/dev/null").open("rb"))
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_descriptors_above_1023_are_waited_for_like_any_other() -> None:
    reading, writing = os.pipe()
    try:
        assert reading > 1_023
        assert not is_readable(reading, 0)
        os.write(writing, b"x")
        assert is_readable(reading, 5)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.usefixtures("many_files")
def test_processes_of_a_run_are_ended_however_many_files_are_open() -> None:
    process = subprocess.Popen(["sleep", "600"], env={RUN_VARIABLE: "many-files", "PATH": os.environ["PATH"]})
    try:
        assert end_processes("many-files") == (f"{process.pid} sleep",)
        assert process.wait(5) == -9
    finally:
        process.kill()
        process.wait()
