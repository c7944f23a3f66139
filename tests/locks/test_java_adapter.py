"""What only the Java half of the lock protocol has (`workloads/adapters/java/`): bounds that the JVM counts, and its
JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.locks.conftest import redis_at
from workloads.base import LockSettings
from workloads.foreign import ForeignLock

HALF = Path(__file__).parents[2] / "workloads" / "adapters" / "java"
pytestmark = pytest.mark.needs("java")

ADAPTER = """
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

public class Toy implements FencepostAdapter.Adapter {
    private final Map<String, Object> settings;

    private Toy(Map<String, Object> settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) throws Exception {
        FencepostAdapter.serve((nodes, settings) -> new Toy(settings));
    }

    public Map<String, Object> describe() {
        return FencepostAdapter.fields("settings", settings);
    }

    public Map<String, Object> release(String key, String value) {
        return FencepostAdapter.ok("error", key + value);
    }

    public Map<String, Object> acquire(String key, long ttlMs) throws Exception {
        switch (key) {
            case "wait":
                Thread.sleep(ttlMs);
                return FencepostAdapter.info(new Exception(key));
            default:
                return computed(key);
        }
    }

    /** A library that computes its result after a long wait. The test learns of the true time as requested_ns. */
    private static Map<String, Object> computed(String key) throws Exception {
        FencepostAdapter.BoundedCall call = new FencepostAdapter.BoundedCall();
        work(20);
        LockSupport.parkNanos(500_000_000);
        Thread.sleep(500);
        work(20);
        long computedNs = System.nanoTime();
        if (key.equals("stop")) {
            System.out.println("pid " + ProcessHandle.current().pid());
            Process kill = new ProcessBuilder("kill", "-STOP", "" + ProcessHandle.current().pid()).start();
            while (kill.isAlive()) { // not waitFor: a library that waits after computing has no such bounds
                Thread.onSpinWait();
            }
        }
        work(200);
        Map<String, Object> answer =
                FencepostAdapter.ok("value", "v", "validity_ms", 1000, "requested_ns", computedNs);
        answer.putAll(call.end());
        return answer;
    }

    private static void work(long ms) {
        for (long end = System.nanoTime() + ms * 1_000_000; System.nanoTime() < end; ) {
            Thread.onSpinWait();
        }
    }
}
"""
OPEN: dict[str, object] = {"do": "open", "nodes": [{"host": "h", "port": 1, "url": "redis://h:1/0"}], "protocol": 1}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs the adapter."""
    folder = tmp_path_factory.mktemp("java")
    (folder / "Toy.java").write_text(ADAPTER)
    sources = [str(path) for path in [*HALF.glob("*.java"), folder / "Toy.java"]]
    compile_it = ["javac", "--release", "17", "-Xlint:all,-fallthrough", "-Werror", "-d", str(folder), *sources]
    done = subprocess.run(compile_it, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(folder), "Toy"]


@pytest.fixture
def lock(command: list[str], tmp_path: Path) -> Iterator[ForeignLock]:
    opened = ForeignLock(command, [redis_at("127.0.0.1", 1)], LockSettings(log_path=tmp_path / "log"))
    yield opened
    opened.close()


def test_the_bounds_include_the_time_of_computing_and_not_the_wait_before_it(lock: ForeignLock) -> None:
    for _ in range(2):
        lease = lock.acquire("k", 1000)
        assert lease is not None
        assert lease.computed_after_ns is not None
        assert lease.requested_ns is not None
        assert lease.computed_before_ns is not None
        assert lease.computed_after_ns <= lease.requested_ns <= lease.computed_before_ns - 200_000_000
        assert lease.computed_before_ns - lease.computed_after_ns < 1_000_000_000, (
            "the library waited for 1 s before it computed its result"
        )


def test_the_bounds_include_the_time_of_computing_if_the_process_is_stopped_after_it(
    lock: ForeignLock, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def resume() -> None:
        while "pid" not in log.read_text():
            time.sleep(0.01)
        pid = int(log.read_text().split("pid ")[1].split()[0])
        while "State:\tT" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)

    resuming = threading.Thread(target=resume)
    resuming.start()
    try:
        lease = lock.acquire("stop", 1000)
    finally:
        resuming.join()
    assert lease is not None
    assert lease.computed_after_ns is not None
    assert lease.requested_ns is not None
    assert lease.computed_before_ns is not None
    assert lease.computed_after_ns <= lease.requested_ns <= lease.computed_before_ns - 500_000_000


def test_a_step_that_the_adapter_does_not_have_is_refused(lock: ForeignLock) -> None:
    lease = lock.acquire("k", 1000)
    assert lease is not None
    assert lock.extend(lease, 1000) is None
    assert lock.release(lease) is True


def asked(command: list[str], *requests: Mapping[str, object]) -> subprocess.Popen[bytes]:
    """The adapter after these requests were written and its stdin was closed."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    child.stdin.close()
    return child


def answers(command: list[str], *requests: Mapping[str, object]) -> list[dict[str, object]]:
    child = asked(command, *requests)
    assert child.stdout is not None
    with child, child.stdout:
        found = [json.loads(line) for line in child.stdout]
        assert child.wait(30) == 0
    return found


def test_requests_are_answered_in_order_even_if_stdin_has_ended(command: list[str]) -> None:
    waits = [{"do": "acquire", "key": "wait", "ttl_ms": ms} for ms in (200, 0)]
    release = {"do": "release", "key": 'k"\\\n\u00e9', "value": "\U0001f512"}
    assert answers(command, OPEN | {"settings": {}}, *waits, release) == [
        {"outcome": "ok", "describe": {"settings": {}}},
        {"outcome": "info", "error": "java.lang.Exception: wait"},
        {"outcome": "info", "error": "java.lang.Exception: wait"},
        {"outcome": "ok", "error": 'k"\\\n\u00e9\U0001f512'},
    ]


def test_tasks_do_not_wait_for_each_other_and_answers_name_their_task(command: list[str]) -> None:
    waits = [{"do": "acquire", "task": task, "key": "wait", "ttl_ms": ms} for task, ms in ((1, 500), (2, 0), (1, 1))]
    found = answers(command, OPEN | {"settings": {}}, *waits)
    assert [answer.get("task") for answer in found] == [None, 2, 1, 1]


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_settings_of_every_kind_survive_the_adapter_s_json(command: list[str], ensure_ascii: bool) -> None:
    settings = {
        "text": 'a "quoted" \\ back\\slash / \t tab \u00e9 \U0001f512 \x01',
        "numbers": [0, -1, 81985529216486895, 1.5, -2.5e-3, 1e300],
        "words": [True, False, None],
        "nested": {"empty": {}, "list": [], "lists": [[1], [2, [3]]]},
    }
    request = json.dumps(OPEN | {"settings": settings}, ensure_ascii=ensure_ascii)
    done = subprocess.run(command, input=request.encode() + b"\n", capture_output=True, check=True)
    assert json.loads(done.stdout) == {"outcome": "ok", "describe": {"settings": settings}}
