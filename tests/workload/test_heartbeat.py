"""A heartbeat notices when its process, or the process of its lock, stood still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import monotonic_ns, sleep

import pytest

from cluster.polling import becomes_true
from cluster.subprocesses import is_stopped
from fencepost.history import Beats, Gap
from harness.store.append_log import read_lines
from tests.harness.cgroups import group
from workloads.heartbeat import Heartbeat
from workloads.other_process import OtherProcess
from workloads.waiting import ThreadWaits

LIVING = """
import sys, time
from pathlib import Path
from workloads.heartbeat import Heartbeat

folder, others = Path(sys.argv[1]), [int(pid) for pid in sys.argv[2:]]
heartbeat = Heartbeat(folder / "gaps", folder / "beats", lambda _: (folder / "beaten").touch())
heartbeat.minds(others)
with heartbeat:
    sys.stdin.read()
"""
BUSY_THREADS = """
import hashlib, os, sys, threading
from itertools import repeat

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(2):
    threading.Thread(target=lambda: [hashlib.sha512(bytes(10_000_000)) for _ in repeat(None)], daemon=True).start()
sys.stdin.read()
"""
"""Two threads on one processor; the main thread, which started them, does nothing."""
STOP_NS = 400_000_000


def gaps(folder: Path) -> list[Gap]:
    log = folder / "gaps"
    return [gap for piece in read_lines(log, Gap) for gap in piece] if log.exists() else []


@pytest.fixture
def idle() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, as a lock's may."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def living(tmp_path: Path, idle: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose heart beats, and which looks after the idle one."""
    command = [sys.executable, "-c", LIVING, str(tmp_path), str(idle.pid)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert becomes_true((tmp_path / "beaten").exists, within_s=30)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == 0


def stop_for_a_while(pid: int) -> tuple[int, int]:
    """Stop a process; from when to when it certainly stood still."""
    os.kill(pid, signal.SIGSTOP)
    assert becomes_true(lambda: is_stopped(pid))
    began_ns = monotonic_ns()
    sleep(STOP_NS / 1e9)  # this is how long it stands still
    ended_ns = monotonic_ns()
    os.kill(pid, signal.SIGCONT)
    return began_ns, ended_ns


def test_a_process_that_was_stopped_knows_it(tmp_path: Path, living: subprocess.Popen[bytes]) -> None:
    began_ns, ended_ns = stop_for_a_while(living.pid)

    def found() -> list[Gap]:
        return [gap for gap in gaps(tmp_path) if gap.pid is None and gap.to_ns > ended_ns]

    assert becomes_true(lambda: bool(found()))
    own = found()[0]
    assert own.from_ns <= began_ns
    assert own.to_ns >= ended_ns
    assert own.to_ns - own.from_ns - own.waited_ns > STOP_NS / 2


def test_a_stopped_process_of_the_lock_is_noticed_too(
    tmp_path: Path, living: subprocess.Popen[bytes], idle: subprocess.Popen[bytes]
) -> None:
    began_ns, ended_ns = stop_for_a_while(idle.pid)

    def found() -> list[Gap]:
        return [gap for gap in gaps(tmp_path) if gap.pid == idle.pid and gap.to_ns >= ended_ns]

    assert becomes_true(lambda: bool(found()))
    assert found()[0].from_ns <= began_ns
    assert found()[0].is_stop


def test_a_late_look_is_no_evidence_that_the_lock_stood_still(tmp_path: Path, idle: subprocess.Popen[bytes]) -> None:
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)  # it does not beat
    heartbeat.minds([idle.pid])
    heartbeat.check(monotonic_ns() + STOP_NS)
    (own,) = gaps(tmp_path)
    assert own.pid is None


def test_a_late_look_knows_that_the_lock_was_stopped_and_continued_before_it(
    tmp_path: Path, idle: subprocess.Popen[bytes]
) -> None:
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)  # it does not beat
    heartbeat.minds([idle.pid])
    os.kill(idle.pid, signal.SIGSTOP)
    assert becomes_true(lambda: is_stopped(idle.pid))
    os.kill(idle.pid, signal.SIGCONT)
    assert becomes_true(lambda: not is_stopped(idle.pid))
    heartbeat.check(monotonic_ns() + STOP_NS)
    assert [(gap.pid, gap.is_stop) for gap in gaps(tmp_path)] == [(None, False), (idle.pid, True)]
    heartbeat.check(monotonic_ns() + 3 * STOP_NS)
    assert [gap.pid for gap in gaps(tmp_path)] == [None, idle.pid, None], "it is known already"


@pytest.mark.needs("freezer")
def test_a_lock_that_is_frozen_alone_is_noticed(
    tmp_path: Path, living: subprocess.Popen[bytes], idle: subprocess.Popen[bytes]
) -> None:
    with group(f"fencepost-frozen-{idle.pid}") as frozen:
        frozen.add([idle.pid])
        frozen.freeze()
        assert becomes_true(lambda: is_in_the_kernel(idle.pid))
        began_ns = monotonic_ns()
        sleep(STOP_NS / 1e9)  # this is how long it stands still
        ended_ns = monotonic_ns()
    assert becomes_true(lambda: any(gap.to_ns >= ended_ns for gap in gaps(tmp_path) if gap.pid == idle.pid))
    (alone,) = [gap for gap in gaps(tmp_path) if gap.pid == idle.pid]
    assert alone.from_ns <= began_ns
    assert not alone.is_stop


def is_in_the_kernel(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"


@pytest.mark.parametrize(
    ("looks", "stood"),
    [
        ([("S", 1), ("D", 1), ("S", 2)], False),
        ([("S", 1), ("D", 1), ("D", 2), ("S", 3)], False),
        ([("S", 1), ("D", 1), ("D", 1), ("S", 2)], True),
        ([("S", 1), ("T", 1), ("S", 2)], True),
        ([("S", 1), ("t", 1), ("S", 2)], True),
        ([("S", 1), ("S", 1), ("S", 1)], False),
    ],
    ids=["one look in the kernel", "it ran in between", "it did not", "stopped", "traced", "nothing to do"],
)
def test_a_process_stands_still_only_on_the_kernels_word(
    monkeypatch: pytest.MonkeyPatch, looks: list[tuple[str, int]], stood: bool
) -> None:
    seen = iter([(ord(state), turns) for state, turns in looks])
    monkeypatch.setattr(OtherProcess, "_look", lambda _: next(seen))
    other = OtherProcess(os.getpid(), 100)
    other.runs(1_000)
    found = [gap for at in range(len(looks)) if (gap := other.look(1_060 + 60 * at)) is not None]
    assert [(gap.from_ns, gap.to_ns) for gap in found] == ([(1_060, 1_000 + 60 * len(looks))] if stood else [])


def test_a_lock_whose_process_has_ended_does_not_stand_still(
    tmp_path: Path, living: subprocess.Popen[bytes], idle: subprocess.Popen[bytes]
) -> None:
    idle.kill()
    idle.wait()
    (tmp_path / "beaten").unlink()
    assert becomes_true((tmp_path / "beaten").exists)
    assert not [gap for gap in gaps(tmp_path) if gap.pid is not None]


def test_what_a_client_does_before_its_heart_beats_is_no_gap(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)
    heartbeat.minds([os.getpid()])
    sleep(0.2)
    entered_ns = monotonic_ns()
    with heartbeat:
        heartbeat.check(monotonic_ns())
    assert all(gap.from_ns >= entered_ns for gap in gaps(tmp_path)), "it may have been kept waiting since then"


def test_a_process_of_the_lock_waits_as_long_as_the_thread_of_it_that_waits_longest(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY_THREADS], stdin=subprocess.PIPE)
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)  # it does not beat
    heartbeat.minds([process.pid])
    waits = ThreadWaits(process.pid)

    def others_waited() -> bool:
        waits.look()
        waited_ns = [ns for thread, ns in waits.so_far_ns.items() if thread != str(process.pid)]
        return len(waited_ns) == 2 and min(waited_ns) > STOP_NS

    assert becomes_true(others_waited, within_s=60)
    heartbeat.check(monotonic_ns() + STOP_NS)
    waited_ns = heartbeat._waits_so_far_ns()[str(process.pid)]
    assert max(waits.so_far_ns.values()) <= waited_ns
    waits.look()
    assert waited_ns < sum(waits.so_far_ns.values())
    process.kill()
    process.wait()


def test_the_lock_may_run_in_another_process_from_now_on(tmp_path: Path, idle: subprocess.Popen[bytes]) -> None:
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)  # it does not beat
    heartbeat.minds([os.getpid()])
    heartbeat.minds([idle.pid])
    os.kill(idle.pid, signal.SIGSTOP)
    assert becomes_true(lambda: is_stopped(idle.pid))
    os.kill(idle.pid, signal.SIGCONT)
    heartbeat.check(monotonic_ns() + STOP_NS)
    assert [gap.pid for gap in gaps(tmp_path)] == [None, idle.pid]


def test_who_looks_before_the_heart_beats_again_records_the_gap_first(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)  # not entered: it does not beat
    now_ns = heartbeat._last_ns
    heartbeat.check(now_ns + 90_000_000)
    assert gaps(tmp_path) == []
    heartbeat.check(now_ns + 300_000_000)
    (gap,) = gaps(tmp_path)
    assert gap.to_ns == now_ns + 300_000_000
    heartbeat.check(now_ns + 310_000_000)
    assert len(gaps(tmp_path)) == 1, "once is enough"


def test_a_thread_that_looked_before_another_one_noted_a_later_time_notes_nothing(tmp_path: Path) -> None:
    """Both looked, and the one that had looked first got its turn last."""
    heartbeat = Heartbeat(tmp_path / "gaps", tmp_path / "beats", lambda _: None)
    now_ns = monotonic_ns()
    with heartbeat._recording:
        late = Thread(target=heartbeat.check, args=[now_ns + 200_000_000])
        late.start()
        heartbeat._note(now_ns + 300_000_000)
    late.join()
    heartbeat.check(now_ns + 500_000_000)
    assert [gap.to_ns - now_ns for gap in gaps(tmp_path)] == [300_000_000, 500_000_000]
    assert gaps(tmp_path)[1].from_ns == now_ns + 300_000_000


def test_every_beat_is_on_record_with_its_delay(tmp_path: Path, living: subprocess.Popen[bytes]) -> None:
    began_ns, ended_ns = stop_for_a_while(living.pid)

    def lines() -> list[Beats]:
        log = tmp_path / "beats"
        return [line for piece in read_lines(log, Beats) for line in piece] if log.exists() else []

    assert becomes_true(lambda: any(line.from_ns > ended_ns for line in lines()), within_s=30)
    first, *others = lines()
    for line, following in zip([first, *others], others, strict=False):
        whole_us = sum(line.after_us)
        assert 0 <= (following.from_ns - line.from_ns) / 1e3 - whole_us <= len(line.after_us), "no beat is missing"
    assert all(line.every_us == 50_000 and min(line.after_us) >= 50_000 for line in lines())
    longest_us = max(us for line in lines() for us in line.after_us)
    assert longest_us >= (ended_ns - began_ns) / 1e3
