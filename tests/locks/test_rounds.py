"""What the nodes replied, as locks expose it and clients record it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from fencepost.history import NodeReply, Op, Round, RoundName
from tests.locks.conftest import Server
from workloads.base import Lease, Lock, LockSettings, NodeAddress, ShowsRounds
from workloads.control import Control
from workloads.lock_steps import LockSteps
from workloads.locks.control_no_unique_value import NoUniqueValue
from workloads.locks.redlock import Redlock
from workloads.options import ClientOptions
from workloads.recorder import Recorder

TTL_MS = 10_000
LONG_MS = 2_000
"""A node timeout that every node keeps that is not paused."""


@pytest.fixture(params=["parallel", "sequential"])
def pair(nodes: Sequence[NodeAddress], request: pytest.FixtureRequest) -> Iterator[tuple[Redlock, Redlock]]:
    """Two clients' locks on the five servers."""
    settings = LockSettings(node_timeout_ms=LONG_MS, retry_delay_ms=1, acquire_mode=request.param, rng=Random(1))
    locks = Redlock(nodes, settings), Redlock(nodes, settings)
    yield locks
    for lock in locks:
        lock.close()


def said(one: Round) -> str:
    return " ".join(reply.said for reply in one.replies)


def test_a_grant_and_a_release_are_one_round_each_with_the_time_of_every_reply(pair: tuple[Redlock, Redlock]) -> None:
    lock, _ = pair
    began_ns = time.monotonic_ns()
    lease = lock.acquire("k", TTL_MS)
    assert lease is not None
    (one,) = lock.take_rounds()
    assert (one.f, one.key, one.value, one.section) == ("acquire", "k", lease.value, 0)
    assert [reply.node for reply in one.replies] == ["n1", "n2", "n3", "n4", "n5"]
    assert said(one) == "OK OK OK OK OK"
    moments = [reply.at_ns for reply in one.replies]
    assert all(began_ns <= one.asked_ns <= at <= one.done_ns for at in moments if at is not None)
    assert None not in moments
    assert lock.release(lease)
    (given_back,) = lock.take_rounds()
    assert (given_back.f, given_back.value, said(given_back)) == ("release", lease.value, "1 1 1 1 1")
    assert lock.take_rounds() == []


def test_refused_attempts_and_the_rounds_that_undo_them_are_exposed_too(pair: tuple[Redlock, Redlock]) -> None:
    one, other = pair
    assert one.acquire("k", TTL_MS) is not None
    assert other.acquire("k", TTL_MS) is None
    rounds = other.take_rounds()
    assert [(r.f, said(r)) for r in rounds] == [
        ("acquire", "nil nil nil nil nil"),
        ("undo", "0 0 0 0 0"),
    ] * Redlock.ROUNDS
    assert len({r.value for r in rounds}) == Redlock.ROUNDS


def test_a_node_that_does_not_reply_is_silent_in_the_round_and_late_replies_do_not_count(
    pair: tuple[Redlock, Redlock], servers: list[Server]
) -> None:
    lock, _ = pair
    servers[2].pause()
    lease = lock.acquire("k", TTL_MS)
    assert lease is not None
    servers[2].resume()
    assert lock.extend(lease, TTL_MS) is not None
    first, second = lock.take_rounds()
    assert said(first) == "OK OK silent OK OK"
    assert first.replies[2].at_ns is None
    assert (second.f, said(second)) == ("extend", "1 1 1 1 1")


def test_a_nodes_error_is_quoted(pair: tuple[Redlock, Redlock], servers: list[Server]) -> None:
    lock, _ = pair
    servers[0].client().rpush("k", "not a string")
    assert lock.acquire("k", TTL_MS) is not None
    lock.release(Lease("k", "x", 1))
    acquired, released = lock.take_rounds()
    assert said(acquired) == "nil OK OK OK OK"
    # Redis 6 names the script first, and what is kept of an error is short.
    assert re.match("WRONGTYPE .*wrong kind of value|ERR Error running script", released.replies[0].said)


def test_rounds_that_are_never_taken_do_not_accumulate(pair: tuple[Redlock, Redlock]) -> None:
    lock, _ = pair
    for _ in range(50):
        lease = lock.acquire("k", TTL_MS)
        assert lease is not None
        lock.release(lease)
    assert len(lock.take_rounds()) <= 2 * Redlock.ROUNDS


def test_the_controls_expose_rounds_too(nodes: Sequence[NodeAddress]) -> None:
    lock = NoUniqueValue(nodes, LockSettings(node_timeout_ms=LONG_MS))
    assert isinstance(lock, ShowsRounds)
    assert lock.acquire("k", TTL_MS) is not None
    assert [r.value for r in lock.take_rounds()] == ["locked"]
    lock.close()


class Plain:
    """A lock that exposes no rounds: it grants, then refuses."""

    def __init__(self) -> None:
        self.granted = 0

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self.granted += 1
        return Lease(key, "mine", 1.0) if self.granted == 1 else None

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None

    def release(self, lease: Lease) -> bool:
        return True

    def close(self) -> None: ...

    def describe(self) -> dict[str, object]:
        return {}


class Showing(Plain):
    """The same, but exposes a round for each call, and checks that it is in the file before the operation."""

    def take_rounds(self) -> list[Round]:
        return [Round("acquire", "k1", f"v{self.granted}", 1, 2, (NodeReply("n1", "OK", 2),))]


def taken(lock: Lock, folder: Path, answers: Path | None) -> list[Op]:
    record = Recorder(folder / "ops.jsonl", answers)
    steps = LockSteps("c1", ClientOptions(), lock, record, Control.create(folder / "control"))
    ops = [steps.acquire("k1"), steps.step("look", lambda: None), steps.release(), steps.acquire("k1")]
    record.close()
    return ops


def test_clients_record_the_rounds_of_a_call_with_its_section(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    taken(Showing(), tmp_path, answers)
    rounds = [msgspec.json.decode(line, type=Round) for line in answers.read_bytes().splitlines()]
    assert [(one.section, one.value) for one in rounds] == [(1, "v1"), (1, "v1"), (2, "v2")]
    assert rounds[0].replies == (NodeReply("n1", "OK", 2),)


def test_a_lock_that_exposes_no_rounds_leaves_no_file(tmp_path: Path) -> None:
    taken(Plain(), tmp_path, tmp_path / "answers.jsonl")
    assert not (tmp_path / "answers.jsonl").exists()


def test_rounds_in_which_no_node_did_anything_are_left_out(tmp_path: Path) -> None:
    def one(f: RoundName, value: str, *said: str) -> Round:
        return Round(f, "k1", value, 1, 2, tuple(NodeReply(f"n{i}", word) for i, word in enumerate(said, 1)))

    nothing = [one("acquire", "a", "nil", "nil"), one("undo", "a", "0", "0")]
    undone = [one("acquire", "b", "nil", "nil"), one("undo", "b", "1", "0")]
    silent = [one("acquire", "c", "nil", "silent"), one("undo", "c", "0", "0")]
    granted = [one("acquire", "d", "OK", "nil")]
    record = Recorder(tmp_path / "ops.jsonl", tmp_path / "answers.jsonl")
    record.answered([*nothing, *undone, *silent, *nothing, *granted])
    record.answered(nothing)
    lines = (tmp_path / "answers.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Round) for line in lines] == [*undone, silent[0], *granted]


def test_the_replies_are_in_the_file_before_the_operation(tmp_path: Path) -> None:
    order = []

    class Watched(Recorder):
        def __call__(self, op: Op) -> None:
            order.append((op.f, (tmp_path / "answers.jsonl").read_bytes().count(b"\n")))
            super().__call__(op)

    record = Watched(tmp_path / "ops.jsonl", tmp_path / "answers.jsonl")
    steps = LockSteps("c1", ClientOptions(), Showing(), record, Control.create(tmp_path / "control"))
    steps.acquire("k1")
    steps.release()
    assert order == [("acquire", 1), ("release", 2)]


def test_if_replies_are_not_kept_nothing_is_written(tmp_path: Path) -> None:
    taken(Showing(), tmp_path, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["control", "ops.jsonl"]
