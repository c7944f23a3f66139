"""The adapters' half of the protocol in Python for libraries that are used with asyncio, with toy locks that ask
nobody."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import workloads
from cluster.polling import becomes_true
from fencepost.errors import BrokenEnvironmentError
from tests.locks.conftest import redis_at
from workloads.base import CancelledCallError, LockSettings
from workloads.foreign import ForeignLock, UnknownOutcomeError

HALF = Path(workloads.__file__).parent / "adapters" / "python"
TOY = """
import asyncio, pathlib
from fencepost_adapter import Attempts, BoundedCall, fail, info, ok
from fencepost_adapter_async import serve, warm_up

class Client:
    def __init__(self): self.sent = 0
    async def send(self):
        self.sent += 1
        await asyncio.sleep(0.02)

class Toy:
    def __init__(self):
        self.client = Client()
        self.attempts = Attempts(self.client, "send")
        self.mutex, self.waiting = asyncio.Lock(), 0
        self.ticks = 0
        self.ticking = asyncio.create_task(self.tick())
    async def tick(self):
        while True:
            await asyncio.sleep(0.001)
            self.ticks += 1
            if self.ticks == 20:
                pathlib.Path(sys.argv[1]).touch()
    async def acquire(self, key, ttl_ms):
        return await getattr(self, key)(ttl_ms)
    async def both(self, ttl_ms):
        self.waiting += 1
        async with asyncio.timeout(10):
            while self.waiting < 2:  # until the other task is here too
                await asyncio.sleep(0.001)
        if self.mutex.locked():
            return fail()
        await self.mutex.acquire()
        return ok(value="v")
    async def computed_at_the_end(self, ttl_ms):
        with BoundedCall() as call:
            await asyncio.sleep(0.5)
        return ok(value="v", validity_ms=ttl_ms, **call.bounds())
    async def third_attempt(self, ttl_ms):
        for _ in range(3):
            await self.client.send()
        return ok(value="v", **self.attempts.bounds())
    async def hangs(self, ttl_ms): await never()
    async def breaks(self, ttl_ms): raise ConnectionError("the reply was lost")
    async def extend(self, key, value, ttl_ms): return fail()
    async def release(self, key, value): return ok()
    def describe(self): return {}

async def never():
    await asyncio.sleep(3600)
"""
OPENS = "async def open_adapter(nodes, settings): return Toy()"


@pytest.fixture
def ticked(tmp_path: Path) -> Path:
    """Is there when the toy's own task has run for a while."""
    return tmp_path / "ticked"


@pytest.fixture
def command(ticked: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The command of an adapter with these further lines."""

    def write(more: str = OPENS) -> list[str]:
        path = tmp_path / "adapter.py"
        lines = ["import sys", f"sys.path.append({str(HALF)!r})", TOY, textwrap.dedent(more), "serve(open_adapter)"]
        path.write_text("\n".join(lines))
        return [sys.executable, str(path), str(ticked)]

    return write


def opened(command: list[str], log: Path, tasks: int = 1, renewal_ms: float | None = None) -> ForeignLock:
    settings = LockSettings(log_path=log, tasks=tasks, renewal_ms=renewal_ms)
    return ForeignLock(command, [redis_at("127.0.0.1", 1)], settings)


@pytest.fixture
def lock(command: Callable[..., list[str]], tmp_path: Path) -> Iterator[ForeignLock]:
    lock = opened(command(), tmp_path / "log")
    yield lock
    lock.close()


def test_tasks_share_one_loop_and_do_not_wait_for_each_other(command: Callable[..., list[str]], tmp_path: Path) -> None:
    lock = opened(command(), tmp_path / "log", tasks=2)
    try:
        with ThreadPoolExecutor(2) as tasks:
            leases = list(tasks.map(lambda _: lock.acquire("both", 1_000), range(2)))
        assert sorted(lease is None for lease in leases) == [False, True]
    finally:
        lock.close()


def test_a_call_that_its_user_cancels_ends_and_the_next_one_is_not_cancelled(lock: ForeignLock) -> None:
    lock.cancel_after(5)
    with pytest.raises(CancelledCallError, match="cancelled after 5 ms"):
        lock.acquire("hangs", 1_000)
    assert lock.acquire("third_attempt", 1_000) is not None


def test_a_call_that_is_over_before_it_would_be_cancelled_is_answered(lock: ForeignLock) -> None:
    lock.cancel_after(60_000)
    lease = lock.acquire("third_attempt", 1_000)
    assert lease is not None
    lock.cancel_after(60_000)
    assert lock.release(lease)


def test_a_library_that_finishes_although_it_is_cancelled_is_taken_at_its_word(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    finishing = """
        class Finishing(Toy):
            async def finishes(self, ttl_ms):
                try:
                    await never()
                except asyncio.CancelledError:
                    return ok(value="v")
        async def open_adapter(nodes, settings): return Finishing()"""
    lock = opened(command(finishing), tmp_path / "log")
    try:
        lock.cancel_after(5)
        assert lock.acquire("finishes", 1_000) is not None
    finally:
        lock.close()


def test_a_library_s_own_tasks_go_on_between_requests(
    command: Callable[..., list[str]], ticked: Path, tmp_path: Path
) -> None:
    watching = """
        class Watching(Toy):
            async def held(self, key, value): return ok() if self.ticks >= 20 else fail()
        async def open_adapter(nodes, settings): return Watching()
    """
    lock = opened(command(watching), tmp_path / "log", renewal_ms=50)
    try:
        assert becomes_true(ticked.exists, within_s=10, every_s=0.02), "although nothing was asked"
        lease = lock.acquire("third_attempt", 1_000)
        assert lease is not None
        assert lock.is_held(lease)
    finally:
        lock.close()


def test_what_was_awaited_does_not_count_if_it_was_computed_at_the_end(lock: ForeignLock) -> None:
    lease = lock.acquire("computed_at_the_end", 1_000)
    assert lease is not None
    assert lease.computed_after_ns is not None
    assert lease.computed_before_ns is not None
    assert 1_000_000 <= lease.computed_before_ns - lease.computed_after_ns < 500_000_000


def test_a_lease_began_with_the_newest_attempt(lock: ForeignLock) -> None:
    before_ns = time.monotonic_ns()
    lease = lock.acquire("third_attempt", 1_000)
    assert lease is not None
    assert lease.computed_after_ns is not None
    assert lease.computed_before_ns is not None
    assert lease.computed_after_ns >= before_ns + 2 * 20_000_000
    assert lease.computed_before_ns >= lease.computed_after_ns + 20_000_000


def test_an_exception_is_about_one_operation_and_in_the_log(lock: ForeignLock, tmp_path: Path) -> None:
    with pytest.raises(UnknownOutcomeError, match="ConnectionError: the reply was lost"):
        lock.acquire("breaks", 1_000)
    assert lock.acquire("third_attempt", 1_000) is not None
    assert "Traceback" in (tmp_path / "log").read_text()


def test_an_adapter_that_cannot_open_says_why(command: Callable[..., list[str]], tmp_path: Path) -> None:
    with pytest.raises(BrokenEnvironmentError, match="did not open: ValueError: no driver"):
        opened(command("async def open_adapter(nodes, settings): raise ValueError('no driver')"), tmp_path / "log")
    with pytest.raises(BrokenEnvironmentError, match="cannot say whether a lock is still held"):
        opened(command(), tmp_path / "log", renewal_ms=50)


def test_a_node_that_does_not_reply_is_not_waited_for(command: Callable[..., list[str]], tmp_path: Path) -> None:
    hangs = """
        import fencepost_adapter_async
        fencepost_adapter_async.WARM_UP_S = 0.05
        async def open_adapter(nodes, settings):
            await warm_up([never()])
            return Toy()
    """
    lock = opened(command(hangs), tmp_path / "log")
    try:
        assert lock.acquire("third_attempt", 1_000) is not None
    finally:
        lock.close()


def test_what_was_asked_before_stdin_ended_is_answered_and_a_call_that_hangs_does_not_outlive_it(
    command: Callable[..., list[str]],
) -> None:
    asked: list[dict[str, object]] = [{"do": "open", "nodes": [], "settings": {}}]
    asked += [{"do": "acquire", "key": "hangs", "ttl_ms": 1}, {"do": "release", "key": "k", "value": "v"}]
    requests = "".join(json.dumps(request) + "\n" for request in asked)
    done = subprocess.run(command(), input=requests, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert [json.loads(line)["outcome"] for line in done.stdout.splitlines()] == ["ok", "ok"]
