"""For how long threads wait for a processor, as the kernel counts it."""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Thread

from fencepost.history import Gap
from workloads.waiting import KeptWaiting, ThreadWaits


def test_what_threads_waited_that_have_ended_is_not_forgotten() -> None:
    over = Event()
    other = Thread(target=over.wait)
    other.start()
    waits = ThreadWaits()
    before_ns = dict(waits.so_far_ns)
    assert len(before_ns) > 1
    assert any(before_ns.values()), "every process waits for its processor now and then"
    over.set()
    other.join()
    waits.look()
    after_ns = waits.so_far_ns
    assert all(after_ns[thread] >= waited_ns for thread, waited_ns in before_ns.items())


def test_a_process_that_has_ended_waits_no_more() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    waits = ThreadWaits(process.pid)
    process.wait()
    before_ns = dict(waits.so_far_ns)
    assert waits.look() == []
    assert waits.so_far_ns == before_ns


def test_a_process_is_kept_waiting_from_the_first_beat_with_much_waiting_to_the_last() -> None:
    found: list[Gap] = []
    kept = KeptWaiting(found.append)
    for last_ms, waited_ms in enumerate([0, 19, 20, 50, 20, 19, 0, 20]):
        kept.beat(50_000_000 * last_ms, 50_000_000 * (last_ms + 1), waited_ms * 1_000_000)
    assert found == [Gap(100_000_000, 250_000_000, 150_000_000)]
    kept.end(400_000_000)
    assert found[1:] == [Gap(350_000_000, 400_000_000, 50_000_000)]


def test_a_long_time_of_waiting_is_recorded_in_pieces_of_a_second() -> None:
    found: list[Gap] = []
    kept = KeptWaiting(found.append)
    for beat in range(30):
        kept.beat(50_000_000 * beat, 50_000_000 * (beat + 1), 20_000_000)
    assert found == [Gap(0, 1_000_000_000, 1_000_000_000)]
    kept.end(1_500_000_000)
    assert found[1:] == [Gap(1_000_000_000, 1_500_000_000, 500_000_000)]
