"""What only the Node half of the lock protocol has (`workloads/adapters/node/`): bounds that the event loop counts,
deadlines of the wall clock, routines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from workloads.base import LockSettings
from workloads.foreign import ForeignLock, UnknownOutcomeError

HALF = Path(__file__).parents[2] / "workloads" / "adapters" / "node" / "fencepost_adapter.mjs"
pytestmark = pytest.mark.needs("node")

Written = Callable[[str], list[str]]


@pytest.fixture
def adapter(tmp_path: Path) -> Written:
    """Writes an adapter with these methods, and returns the command that runs it."""

    def write(methods: str) -> list[str]:
        path = tmp_path / "adapter.mjs"
        names = "attemptBegins, boundedCall, fail, info, inside, nowNs, ok, serve, timedCall, untilWallClock, warmUp"
        path.write_text(
            f"import {{ {names} }} from '{HALF}'\n"
            "const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))\n"
            "const busy = (ms) => { for (const end = nowNs() + ms * 1e6; nowNs() < end; ); }\n"
            f"serve(async (nodes, settings) => ({{ describe: () => ({{ settings }}), {methods} }}))\n"
        )
        return ["node", str(path)]

    return write


def opened(command: list[str], log: Path) -> ForeignLock:
    return ForeignLock(command, [], LockSettings(log_path=log))


COMPUTES = """
    async acquire() {{
      let computedNs
      const library = async () => {{
        busy(20); await sleep(1000); busy(20)
        computedNs = nowNs()
        {then}
        await new Promise(setImmediate)
      }}
      const {{ bounds }} = await boundedCall(library)
      return ok({{ value: 'v', validity_ms: 1000, requested_ns: computedNs, ...bounds }})
    }}
"""
"""A library that computes its result after a long wait. The test learns of the true time as `requested_ns`."""


def test_the_bounds_include_the_time_of_computing_and_not_the_wait_before_it(adapter: Written, tmp_path: Path) -> None:
    lock = opened(adapter(COMPUTES.format(then="busy(30)")), tmp_path / "log")
    try:
        for _ in range(2):
            lease = lock.acquire("k", 1000)
            assert lease is not None
            after, computed, before = lease.computed_after_ns, lease.requested_ns, lease.computed_before_ns
            assert after is not None
            assert computed is not None
            assert before is not None
            assert after <= computed <= before - 30_000_000
            assert before - after < 1_000_000_000, "the library waited for 1 s before it computed its result"
    finally:
        lock.close()


def test_the_bounds_include_the_time_of_computing_if_the_process_is_stopped_after_it(
    adapter: Written, tmp_path: Path
) -> None:
    command = adapter(COMPUTES.format(then="console.log('pid', process.pid); process.kill(process.pid, 'SIGSTOP')"))
    log = tmp_path / "log"
    lock = opened(command, log)

    def resume() -> None:
        while "pid" not in log.read_text():
            time.sleep(0.01)
        pid = int(log.read_text().split()[1])
        while "State:\tT" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(pid, signal.SIGCONT)

    resuming = threading.Thread(target=resume)
    resuming.start()
    try:
        lease = lock.acquire("k", 1000)
    finally:
        resuming.join()
        lock.close()
    assert lease is not None
    assert lease.computed_after_ns is not None
    assert lease.requested_ns is not None
    assert lease.computed_before_ns is not None
    assert lease.computed_after_ns <= lease.requested_ns <= lease.computed_before_ns - 150_000_000


SAYS_YES = """
    async acquire() {
      let askedNs
      const library = async () => { await sleep(20); askedNs = nowNs(); await sleep(200); return true }
      const { bounds } = await timedCall(library)
      return ok({ value: 'v', requested_ns: askedNs, ...bounds })
    }
"""
"""A library that asks the nodes, waits for their replies and says yes. The test learns when it asked."""


def test_a_lease_of_which_the_library_says_nothing_but_yes_may_have_begun_when_the_nodes_were_asked(
    adapter: Written, tmp_path: Path
) -> None:
    lock = opened(adapter(SAYS_YES), tmp_path / "log")
    try:
        lease = lock.acquire("k", 1000)
    finally:
        lock.close()
    assert lease is not None
    assert lease.validity_ms is None
    assert lease.computed_after_ns is not None
    assert lease.requested_ns is not None
    assert lease.computed_before_ns is not None
    assert lease.computed_after_ns <= lease.requested_ns <= lease.computed_before_ns - 190_000_000


TRIES_AGAIN = """
    async acquire({ ttl_ms }) {
      let askedNs
      const library = async () => {
        for (const _ of [1, 2]) { await sleep(ttl_ms); attemptBegins(); askedNs = nowNs(); await sleep(20) }
        return true
      }
      const { bounds } = await timedCall(library)
      return ok({ value: 'v', requested_ns: askedNs, ...bounds })
    }
"""


def test_a_lease_began_no_earlier_than_the_attempt_that_succeeded(adapter: Written) -> None:
    """Two tasks at a time, whose attempts are not taken for each other's."""
    asked_for = [{"do": "acquire", "task": task, "key": "k", "ttl_ms": ms} for task, ms in [(1, 500), (2, 1000)]]
    child = asked(adapter(TRIES_AGAIN), OPEN, *asked_for, ends=False)
    assert child.stdout is not None
    with child:
        _, *answers = [json.loads(child.stdout.readline()) for _ in range(3)]
    assert [answer["task"] for answer in answers] == [1, 2]
    for answer in answers:
        assert answer["requested_ns"] - 200_000_000 < answer["computed_after_ns"] <= answer["requested_ns"]
        assert answer["computed_before_ns"] >= answer["requested_ns"] + 19_000_000


USES = """
    async acquire({ key }) {
      let ended = false
      const using = async (routine) => {
        if (key === 'refused') throw new Error('somebody else has it')
        const result = await routine('signal', 'context')
        ended = true
        if (key === 'lost') throw new Error('it was lost')
      }
      const { given, leave } = await inside(using)
      const before = ended
      await leave()
      return ok({ value: `${given} ${before} ${ended}`, validity_ms: 1 })
    }
"""


def test_a_lock_that_is_held_while_a_routine_runs_is_entered_and_left(adapter: Written, tmp_path: Path) -> None:
    lock = opened(adapter(USES), tmp_path / "log")
    try:
        lease = lock.acquire("k", 1000)
        assert lease is not None
        assert lease.value == "signal,context false true"
        for key, error in [("refused", "somebody else has it"), ("lost", "it was lost")]:
            with pytest.raises(UnknownOutcomeError, match=error):
                lock.acquire(key, 1000)
    finally:
        lock.close()


def test_a_deadline_of_the_wall_clock_is_converted_to_within_a_tenth_of_a_millisecond(
    adapter: Written, tmp_path: Path
) -> None:
    method = "async acquire() { const at = Date.now() + 500; return ok({ value: `${at}`, ...untilWallClock(at) }) }"
    lock = opened(adapter(method), tmp_path / "log")
    try:
        for _ in range(50):
            lease = lock.acquire("k", 1000)
            assert lease is not None
            assert lease.deadline_ns is not None
            earliest_ns = time.monotonic_ns()
            left_ns = int(lease.value) * 1_000_000 - time.time_ns()
            latest_ns = time.monotonic_ns()
            assert earliest_ns + left_ns - 100_000 <= lease.deadline_ns <= latest_ns + left_ns + 1_000
    finally:
        lock.close()


def test_what_a_library_prints_goes_to_the_log_and_not_between_the_answers(adapter: Written, tmp_path: Path) -> None:
    noise = "console.log('one'); console.info('two'); process.stdout.write('three\\n'); console.error('four')"
    lock = opened(adapter(f"async acquire() {{ {noise}; return fail({{ error: 'held' }}) }}"), tmp_path / "log")
    try:
        assert lock.acquire("k", 1000) is None
        assert lock.acquire("k", 1000) is None
    finally:
        lock.close()
    assert (tmp_path / "log").read_text().split() == ["one", "two", "three", "four"] * 2


def test_a_step_that_the_adapter_does_not_have_is_refused(adapter: Written, tmp_path: Path) -> None:
    command = adapter("acquire: async ({ key }) => ok({ value: key, validity_ms: 1 })")
    lock = opened(command, tmp_path / "log")
    try:
        lease = lock.acquire("k", 1000)
        assert lease is not None
        assert lock.extend(lease, 1000) is None
        assert lock.release(lease) is False
    finally:
        lock.close()


def asked(command: list[str], *requests: Mapping[str, object], ends: bool = True) -> subprocess.Popen[bytes]:
    """The adapter after these requests were written and, if they end there, its stdin was closed."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    child.stdin.close() if ends else child.stdin.flush()
    return child


OPEN: dict[str, object] = {"do": "open", "nodes": [], "settings": {"ttl": 1}, "protocol": 1}


def test_requests_are_answered_in_order_even_if_stdin_has_ended(adapter: Written) -> None:
    command = adapter("acquire: async ({ key, ttl_ms }) => { await sleep(ttl_ms); return info(key) }")
    child = asked(command, OPEN, *({"do": "acquire", "key": key, "ttl_ms": ms} for key, ms in [("a", 200), ("b", 0)]))
    assert child.stdout is not None
    with child, child.stdout:
        answers = [json.loads(line) for line in child.stdout]
        assert child.wait(30) == 0
    assert answers == [
        {"outcome": "ok", "describe": {"settings": {"ttl": 1}}},
        {"outcome": "info", "error": "a"},
        {"outcome": "info", "error": "b"},
    ]


def test_tasks_do_not_wait_for_each_other_and_answers_name_their_task(adapter: Written) -> None:
    command = adapter("acquire: async ({ key, ttl_ms }) => { await sleep(ttl_ms); return info(key) }")
    tried = [(1, "a", 400), (1, "b", 0), (2, "c", 0)]
    child = asked(command, OPEN, *({"do": "acquire", "task": t, "key": key, "ttl_ms": ms} for t, key, ms in tried))
    assert child.stdout is not None
    with child, child.stdout:
        answers = [json.loads(line) for line in child.stdout]
    assert [(answer["task"], answer["error"]) for answer in answers[1:]] == [(2, "c"), (1, "a"), (1, "b")]


def test_warming_up_does_not_wait_for_a_node_that_is_down(adapter: Written, tmp_path: Path) -> None:
    wait = "const at = nowNs(); await warmUp([1, 2, 3], (n) => n === 2 ? new Promise(() => {}) : sleep(n), 100)"
    lock = opened(adapter(f"async acquire() {{ {wait}; return info(`${{(nowNs() - at) / 1e6}}`) }}"), tmp_path / "log")
    try:
        with pytest.raises(UnknownOutcomeError) as caught:
            lock.acquire("k", 1000)
        assert 99 < float(str(caught.value)) < 2000
    finally:
        lock.close()
