"""What an author may bring as a lock, and how its calls are answered."""

from __future__ import annotations

import asyncio
import gc
import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_fencepost import Lease
from pytest_fencepost.adapter import fencepost_adapter
from pytest_fencepost.adapter.author_lock import AuthorLock, open_lock
from pytest_fencepost.target import options_for
from tests.plugin.conftest import PLUGIN

NODES = [{"host": "127.0.0.1", "port": 26001, "url": "redis://127.0.0.1:26001/0"}]


class HeldError(Exception):
    pass


class Base:
    """Grants a key once. `grant` is what an acquire returns."""

    refused_by = (HeldError,)
    grant: object = "v1"

    def __init__(self, nodes: Any) -> None:
        assert [node.url for node in nodes] == ["redis://127.0.0.1:26001/0"]
        self.owned: set[str] = set()

    def take(self, key: str) -> None:
        if key in self.owned:
            raise HeldError("somebody has it")
        if key == "broken":
            raise OSError("no reply")
        self.owned.add(key)


class Plain(Base):
    def acquire(self, key: str, ttl_ms: int) -> object:
        self.take(key)
        self.key = key
        return self.grant

    def release(self, held: object) -> bool | None:
        assert held is self.grant
        return None if self.key in self.owned and not self.owned.remove(self.key) else False

    def extend(self, held: object, ttl_ms: int) -> object:
        assert held is self.grant
        return ttl_ms > 1


class Async(Base):
    async def acquire(self, key: str, ttl_ms: int) -> object:
        await asyncio.sleep(0)
        self.take(key)
        return self.grant

    async def release(self, held: object) -> None:
        assert held is self.grant
        self.owned.clear()


class Manager(Base):
    @contextmanager
    def lock(self, key: str, ttl_ms: int) -> Iterator[object]:
        self.take(key)
        yield self.grant
        self.owned.remove(key)


class AsyncManager(Base):
    @asynccontextmanager
    async def lock(self, key: str, ttl_ms: int) -> AsyncIterator[object]:
        async with asyncio.timeout(30):  # can be left only by the task that entered it
            self.take(key)
            yield self.grant
            self.owned.remove(key)


class TimedOut(AsyncManager):
    """Its scope ends by itself."""

    ended = threading.Semaphore(0)

    @asynccontextmanager
    async def lock(self, key: str, ttl_ms: int) -> AsyncIterator[object]:
        try:
            async with asyncio.timeout(0.01):
                yield self.grant
        finally:
            self.ended.release()


SHAPES = (Plain, Async, Manager, AsyncManager)


def opened(kind: type[Base], grant: object = "v1") -> AuthorLock:
    return open_lock(type("Granting", (kind,), {"grant": grant}), "my:Lock", NODES)


@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_grants_refuses_and_releases(kind: type[Base]) -> None:
    lock = opened(kind)
    granted = lock.acquire("k1", 1000)
    assert (granted["outcome"], granted["value"]) == ("ok", "v1")
    assert lock.acquire("k1", 1000) == {"outcome": "fail", "error": "HeldError: somebody has it"}
    assert lock.release("k1", "v1") == {"outcome": "ok"}
    assert lock.acquire("k1", 1000)["outcome"] == "ok"


@pytest.mark.parametrize("kind", SHAPES)
def test_an_error_that_is_no_refusal_leaves_open_what_happened(kind: type[Base]) -> None:
    with pytest.raises(OSError, match="no reply"):  # `serve` answers info
        opened(kind).acquire("broken", 1000)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_lock_that_says_yes_and_nothing_else_is_bounded_by_the_whole_call(kind: type[Base]) -> None:
    before_ns = time.monotonic_ns()
    granted = opened(kind).acquire("k1", 1000)
    after_ns = time.monotonic_ns()
    assert before_ns <= granted["computed_after_ns"] <= granted["computed_before_ns"] <= after_ns  # type: ignore[operator]
    assert not {"validity_ms", "deadline_ns", "token"} & granted.keys()


def test_a_plain_lock_that_waits_and_says_only_yes_is_not_bounded_by_its_busy_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [threading.current_thread()]  # as in a client's process; pytest has threads of its own
    monkeypatch.setattr(threading, "enumerate", lambda: alone)
    never_waited = tmp_path / "schedstat"  # for a processor, however busy this machine is
    never_waited.write_text("0 0 1\n")
    monkeypatch.setattr(fencepost_adapter, "_SCHEDSTAT", never_waited)

    class Slow(Plain):
        def acquire(self, key: str, ttl_ms: int) -> object:
            time.sleep(0.5)  # the wait for a reply, before which the lease began
            return super().acquire(key, ttl_ms)

    granted = opened(Slow).acquire("k1", 1000)
    assert granted["computed_before_ns"] - granted["computed_after_ns"] >= 500_000_000  # type: ignore[operator]
    granted = opened(Slow, Lease("v1", validity_ms=900)).acquire("k1", 1000)
    assert granted["computed_before_ns"] - granted["computed_after_ns"] < 500_000_000  # type: ignore[operator]


def test_a_coroutine_s_busy_time_is_not_the_caller_s() -> None:
    class Slow(Async):
        async def acquire(self, key: str, ttl_ms: int) -> object:
            await asyncio.sleep(0.05)
            return await super().acquire(key, ttl_ms)

    granted = opened(Slow, Lease("v1", validity_ms=900)).acquire("k1", 1000)
    assert granted["computed_before_ns"] - granted["computed_after_ns"] >= 50_000_000  # type: ignore[operator]


@pytest.mark.parametrize("kind", SHAPES)
def test_a_lease_tells_what_the_lock_tells_its_user(kind: type[Base]) -> None:
    granted = opened(kind, Lease(b"\xff", validity_ms=978.2, deadline_ns=5, token=3)).acquire("k1", 1000)
    told = {name: granted[name] for name in ("value_base64", "validity_ms", "deadline_ns", "token")}
    assert told == {"value_base64": "/w==", "validity_ms": 978.2, "deadline_ns": 5, "token": 3}


@pytest.mark.parametrize("grant", [True, object()])
def test_what_names_no_lease_gets_a_name_and_comes_back_as_it_was(grant: object) -> None:
    lock = opened(Plain, grant)
    value = lock.acquire("k1", 1000)["value"]
    assert isinstance(value, str)
    assert lock.acquire("k2", 1000)["value"] != value
    assert lock.release("k1", value) == {"outcome": "ok"}  # Plain sees that it is the same object


@pytest.mark.parametrize("refusal", [None, False])
def test_none_and_false_are_refusals(refusal: object) -> None:
    assert opened(Plain, refusal).acquire("k1", 1000) == {"outcome": "fail"}
    assert opened(Async, refusal).acquire("k1", 1000) == {"outcome": "fail"}


def test_a_release_that_says_false_came_too_late() -> None:
    lock = opened(Plain)
    lock.acquire("k1", 1000)
    lock._lock.owned.clear()
    assert lock.release("k1", "v1") == {"outcome": "fail"}


def test_an_extension_keeps_the_name_and_a_refused_one_the_lease() -> None:
    grant = object()
    lock = opened(Plain, grant)
    value = lock.acquire("k1", 1000)["value"]
    assert lock.extend("k1", value, 1) == {"outcome": "fail"}
    extended = lock.extend("k1", value, 1000)
    assert (extended["outcome"], extended["value"]) == ("ok", value)
    assert lock.release("k1", value) == {"outcome": "ok"}
    assert opened(Manager).extend("k1", "v1", 1000)["outcome"] == "fail"


def test_a_re_entrant_lock_may_name_both_leases_alike() -> None:
    class Reentrant(Base):
        def acquire(self, key: str, ttl_ms: int) -> object:
            return Lease("owner", token=len(self.owned)) if not self.owned.add(f"{len(self.owned)}") else None

        def release(self, held: Lease) -> None:
            assert held.token == len(self.owned)
            self.owned.pop()

    lock = opened(Reentrant)
    assert [lock.acquire("k1", 1000)["token"] for _ in range(2)] == [1, 2]
    assert [lock.release("k1", "owner")["outcome"] for _ in range(2)] == ["ok", "ok"]


def test_only_a_lock_that_can_say_so_is_asked_whether_it_is_still_held() -> None:
    class Renewed(Plain):
        async def is_held(self, held: object) -> bool:
            return "k1" in self.owned

    lock = opened(Renewed)
    value = lock.acquire("k1", 1000)["value"]
    assert lock.held("k1", value) == {"outcome": "ok"}  # type: ignore[attr-defined]
    lock._lock.owned.clear()
    assert lock.held("k1", value) == {"outcome": "fail"}  # type: ignore[attr-defined]
    assert not hasattr(opened(Plain), "held")


def test_what_is_no_lock_is_refused_with_what_it_needs() -> None:
    with pytest.raises(TypeError, match=r"my:Lock gave a dict that has no acquire and no release; it needs acquire\("):
        open_lock(lambda nodes: {}, "my:Lock", NODES)


def test_a_client_answers_under_the_author_s_interpreter_and_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is found because pytest finds it, and the current folder's is not: pytest would not find that."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/author_locks.py").write_text(
        "class Mine:\n def __init__(self, nodes): pass\n def acquire(self, key, ttl_ms): print('x'); return 'v1'\n"
        " def release(self, held): pass\n"
    )
    (tmp_path / "author_locks.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "src")
    requests = [
        {"do": "open", "protocol": 1, "nodes": NODES, "settings": {}},
        {"do": "acquire", "key": "k1", "ttl_ms": 1000},
        {"do": "release", "key": "k1", "value": "v1"},
        {"do": "close"},
    ]
    done = subprocess.run(
        shlex.split(str(options_for("author_locks:Mine")["lock_command"])),
        input="".join(json.dumps(request) + "\n" for request in requests),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["outcome"] for answer in answers] == ["ok"] * 4, done.stderr
    assert answers[0]["describe"]["library"] == "author_locks:Mine"
    assert answers[0]["describe"]["python"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def test_the_plugin_s_half_of_the_protocol_is_the_project_s() -> None:
    half = PLUGIN / "pytest_fencepost/adapter/fencepost_adapter.py"
    assert half.resolve() == PLUGIN.parent / "workloads/adapters/python/fencepost_adapter.py"


def test_a_scope_that_ends_by_itself_is_told_to_the_release_alone(caplog: pytest.LogCaptureFixture) -> None:
    released, forgotten = opened(TimedOut), opened(TimedOut)
    assert forgotten.acquire("k1", 1000)["outcome"] == released.acquire("k1", 1000)["outcome"] == "ok"
    assert all(TimedOut.ended.acquire(timeout=10) for _ in range(2))
    with pytest.raises(TimeoutError):
        released.release("k1", "v1")
    del forgotten
    gc.collect()
    assert "never retrieved" not in caplog.text
