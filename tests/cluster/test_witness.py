"""What the witness sees of real servers, and what it says when it cannot see."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from cluster.process import ProcessCluster
from cluster.programs import find_server
from cluster.resp import ask
from fencepost.history import KeyEvent
from harness.run import witness as witness_process
from harness.run.helper_process import Companion
from harness.run.witness import witness
from harness.store.append_log import AppendLog, read_lines
from tests.cluster.conftest import MakeCluster
from workloads.locks.redlock import RELEASE_SCRIPT

PATIENCE_S = 30.0


class Watched:
    """A cluster of one node under a witness, and what the witness wrote by now."""

    def __init__(self, cluster: ProcessCluster, log: Path) -> None:
        self.cluster, self.node, self.log = cluster, cluster.nodes["n1"], log

    def do(self, *command: str | int) -> object:
        return ask(self.node.address, command, timeout_ms=1000)[0]

    def events(self) -> list[KeyEvent]:
        return [event for piece in read_lines(self.log, KeyEvent) for event in piece] if self.log.exists() else []

    def until(self, wanted: Callable[[list[KeyEvent]], object]) -> list[KeyEvent]:
        """What was written once it is as wanted; fails if it does not become so."""
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(events := self.events()):
            assert time.monotonic() < deadline, events
            time.sleep(0.01)
        return events

    def story(self, events: list[KeyEvent]) -> list[tuple[str, str | None]]:
        return [(event.event, None if event.event == "watching" else event.value) for event in events]

    def until_story(self, *story: tuple[str, str | None]) -> list[KeyEvent]:
        return self.until(lambda events: self.story(events) == list(story))


@pytest.fixture
def watch(make_cluster: MakeCluster, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Bring up a node and its witness. The witness is told to end after the test."""
    witnesses: list[Companion] = []

    def begin(**options: object) -> Watched:
        cluster = make_cluster(**options)
        log = tmp_path / "nodes.jsonl"
        one = witness(cluster.nodes.values(), log, tmp_path / "witness.log", os.environ)
        one.__enter__()
        witnesses.append(one)
        watched = Watched(cluster, log)
        watched.until_story(("watching", None))
        return watched

    yield begin
    for one in witnesses:
        one.__exit__(None, None, None)
    words = tmp_path / "witness.log"
    assert not words.exists() or words.read_text() == ""


@pytest.mark.parametrize("name", ["redis", pytest.param("valkey", marks=pytest.mark.needs("valkey"))])
def test_a_key_that_is_set_prolonged_and_deleted(watch: Callable[..., Watched], name: str) -> None:
    watched = watch(server=find_server(name))
    before_ns = time.monotonic_ns()
    watched.do("SET", "k", "mine", "NX", "PX", 60_000)
    watched.until_story(("watching", None), ("set", "mine"))
    watched.do("SET", "k", "theirs", "NX", "PX", 60_000)  # refused: nothing happened
    watched.do("PEXPIRE", "k", 90_000)
    watched.until_story(("watching", None), ("set", "mine"), ("prolonged", "mine"))
    assert watched.do("EVAL", RELEASE_SCRIPT.decode(), 1, "k", "mine") == 1
    _, was_set, prolonged, deleted = watched.until_story(
        ("watching", None), ("set", "mine"), ("prolonged", "mine"), ("deleted", None)
    )
    assert was_set.ttl_ms is not None
    assert 50_000 < was_set.ttl_ms <= 60_000
    assert prolonged.ttl_ms is not None
    assert 80_000 < prolonged.ttl_ms <= 90_000
    assert {event.key for event in (was_set, prolonged, deleted)} == {"k"}
    assert before_ns < was_set.at_ns < prolonged.at_ns < deleted.at_ns < time.monotonic_ns()


def test_events_lie_between_their_bounds(watch: Callable[..., Watched]) -> None:
    watched = watch()
    moments = []
    for number in range(30):
        before_ns = time.monotonic_ns()
        watched.do("SET", f"k{number}", "v")
        moments.append((before_ns, time.monotonic_ns()))
        time.sleep(0.002 * (number % 5))
    events = watched.until(lambda events: len(events) == 31)[1:]
    for event, (before_ns, after_ns) in zip(events, moments, strict=True):
        assert event.since_ns is not None
        assert event.since_ns <= after_ns
        assert event.at_ns >= before_ns


def test_a_key_that_expires_by_itself(watch: Callable[..., Watched]) -> None:
    watched = watch()

    def life(number: int) -> list[KeyEvent]:
        watched.do("SET", f"k{number}", "v", "PX", 150)
        return watched.until(lambda events: len(events) == 3 + 2 * number)[-2:]

    # On a busy machine the witness may come too late to read a value; then it is unknown.
    was_set, expired = next(events for events in map(life, range(100)) if events[0].value is not None)
    assert watched.story([was_set, expired]) == [("set", "v"), ("expired", None)]
    assert was_set.key == expired.key
    assert was_set.ttl_ms is not None
    assert expired.at_ns >= was_set.at_ns + was_set.ttl_ms * 1_000_000 - 1_000_000


def test_a_value_that_was_gone_before_it_could_be_read_is_unknown_and_not_the_next_one(
    watch: Callable[..., Watched],
) -> None:
    watched = watch()
    watched.do("EVAL", "redis.call('SET','k','a') redis.call('DEL','k') redis.call('SET','k','b')", 0)
    watched.until_story(("watching", None), ("set", None), ("deleted", None), ("set", "b"))


def test_a_value_that_overwrites_another_is_told(watch: Callable[..., Watched]) -> None:
    watched = watch()
    watched.do("SET", "k", "a", "PX", 60_000)
    watched.until_story(("watching", None), ("set", "a"))
    watched.do("SET", "k", "b", "PX", 60_000)
    watched.until_story(("watching", None), ("set", "a"), ("set", "b"))


def test_a_killed_node_is_out_of_sight_until_it_is_back_and_then_what_it_kept_is_seen(
    watch: Callable[..., Watched],
) -> None:
    watched = watch(policy="aof-always")
    sets = [("SET", f"k{number}", "v", "PX", 60_000) for number in range(1200)]  # more than one page of SCAN
    assert ask(watched.node.address, *sets[:-1], timeout_ms=30_000) == ["OK"] * 1199
    watched.until(lambda events: len(events) == 1200)
    before_ns = time.monotonic_ns()
    watched.do(*sets[-1])
    watched.until(lambda events: len(events) == 1201)
    watched.node.kill()
    watched.until(lambda events: events[-1].event == "blind")
    watched.node.start()
    events = watched.until(lambda events: events[-1].event == "watching" and len(events) > 1201)
    blind, *seen, watching = events[1201:]
    assert blind.event == "blind"
    assert before_ns <= blind.at_ns <= time.monotonic_ns(), "it has read the last key, so it saw until then"
    assert sorted(event.key for event in seen) == sorted(f"k{number}" for number in range(1200))
    assert {(event.event, event.value) for event in seen} == {("seen", "v")}
    assert all(event.ttl_ms is not None and 0 < event.ttl_ms < 60_000 for event in seen)
    assert watching.value != events[0].value, "another process has another run id"


def test_a_node_that_kept_nothing_is_seen_to_be_empty(watch: Callable[..., Watched]) -> None:
    watched = watch(policy="none")
    watched.do("SET", "k", "v")
    watched.until_story(("watching", None), ("set", "v"))
    watched.node.kill()
    watched.node.start()
    watched.until_story(("watching", None), ("set", "v"), ("blind", None), ("watching", None))


def test_a_stopped_node_is_out_of_sight_and_nothing_that_follows_is_lost(watch: Callable[..., Watched]) -> None:
    watched = watch()
    watched.do("SET", "k", "v")
    watched.until_story(("watching", None), ("set", "v"))
    watched.node.pause()
    paused_ns = time.monotonic_ns()
    *_, blind = watched.until_story(("watching", None), ("set", "v"), ("blind", None))
    assert blind.at_ns <= paused_ns + 1_000_000, "it vouches for nothing that it only assumed"
    watched.node.resume()
    now = [("watching", None), ("set", "v"), ("blind", None), ("seen", "v"), ("watching", None)]
    first, *_, again = watched.until_story(*now)
    assert first.value == again.value, "it is the same process"
    watched.do("DEL", "k")
    watched.until_story(*now, ("deleted", None))


def test_marks_of_probes_are_no_keys_of_a_lock(watch: Callable[..., Watched]) -> None:
    watched = watch()
    watched.cluster.probe([("c1", "n1")])
    watched.do("SET", "k", "v")
    watched.until_story(("watching", None), ("set", "v"))


def test_when_it_is_told_to_end_it_says_until_when_it_saw(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(nodes=2)
    log = tmp_path / "nodes.jsonl"
    with witness(cluster.nodes.values(), log, tmp_path / "witness.log", os.environ):
        ending_ns = time.monotonic_ns()
    events = [event for piece in read_lines(log, KeyEvent) for event in piece]
    for node in ("n1", "n2"):
        watching, blind = (event for event in events if event.node == node)
        assert (watching.event, blind.event) == ("watching", "blind")
        assert blind.at_ns >= ending_ns


def test_without_a_node_to_watch_nothing_is_raised_and_nothing_is_claimed(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.helper_process.READY_WITHIN_S", 0.3)
    cluster = make_cluster()
    cluster.nodes["n1"].kill()
    log = tmp_path / "nodes.jsonl"
    with witness(cluster.nodes.values(), log, tmp_path / "witness.log", os.environ):
        pass
    assert log.read_bytes() == b""


def test_a_witness_that_cannot_write_says_why_and_stops_nothing(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster()
    words = tmp_path / "witness.log"
    with witness(cluster.nodes.values(), tmp_path / "nowhere" / "nodes.jsonl", words, os.environ):
        pass
    assert "cannot be written: No such file or directory" in words.read_text()


class Answering:
    """A stream of key events whose node answers at once."""

    is_watching = True
    is_opening = False

    def __init__(self) -> None:
        self.fd, self._answers = os.pipe()
        self.wants = {self.fd: select.POLLIN}
        self.is_waiting = False

    def prove(self, now_ns: int) -> None:
        self.is_waiting = True
        os.write(self._answers, b"+PONG")

    def advance(self) -> None:
        os.read(self.fd, 100)
        self.is_waiting = False

    def upkeep(self, now_ns: int) -> None:
        pass

    def take(self) -> list[KeyEvent]:
        return []

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._answers)


class Mute(Answering):
    """A stream whose node says nothing, as the test has it."""

    def __init__(self, *, is_up: bool, is_opening: bool) -> None:
        super().__init__()
        self.wants = self.wants if is_up else {}
        self.is_watching, self.is_opening = is_up and not is_opening, is_opening
        self.looks = 0

    def upkeep(self, now_ns: int) -> None:
        self.looks += 1


@pytest.mark.parametrize(
    ("streams", "most"),
    [
        ([Mute(is_up=True, is_opening=False)], 2),
        ([Mute(is_up=True, is_opening=False), Mute(is_up=False, is_opening=False)], 40),
        ([Mute(is_up=True, is_opening=True)], 40),
        ([Mute(is_up=False, is_opening=False), Mute(is_up=True, is_opening=True)], 40),
    ],
    ids=["all is quiet", "one is down", "one is opening", "one is down, one is opening"],
)
def test_the_witness_rests_whatever_its_nodes_do(streams: list[Mute], most: int) -> None:
    until, other = os.pipe()
    assert not witness_process._look(cast(Any, streams), until, 100_000_000)
    assert 1 <= streams[0].looks <= most
    for descriptor in (until, other):
        os.close(descriptor)


def test_an_answer_that_came_while_the_witness_did_not_run_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Answering()
    monkeypatch.setattr(witness_process, "_open", lambda _: node)
    monkeypatch.setattr(witness_process, "_LAST_PROOF_NS", 0)  # all the time for it went by meanwhile
    until, other = os.pipe()
    os.close(other)
    with AppendLog(tmp_path / "nodes.jsonl") as log, Path(os.devnull).open("wb") as ready:
        witness_process.watch([cast(Any, "n1")], log, until, ready.fileno())
    os.close(until)
    assert not node.is_waiting
