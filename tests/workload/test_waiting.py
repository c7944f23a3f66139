"""For how long threads wait for a processor, as the kernel counts it."""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Thread

from workloads.waiting import ThreadWaits


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
