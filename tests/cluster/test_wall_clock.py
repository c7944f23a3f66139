"""A node's wall clock: what the server says, how long its keys live, and that nothing else notices."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cluster import resp
from cluster.base import Node
from cluster.docker import DockerCluster
from cluster.lifetime import RunState
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.wall_clock import RIGHT, ClockSetting, find_clock_library
from fencepost.errors import BrokenEnvironmentError, UsageError
from tests.cluster.conftest import MakeCluster
from tests.specs import spec_of

pytestmark = pytest.mark.needs("clock")
LONG_MS = 5_000
"""For what has to be answered, however busy the machine is."""


def told(node: Node, *command: str | int) -> resp.Reply:
    (reply,) = resp.ask(node.address, command, timeout_ms=LONG_MS)
    return reply


def is_ahead(node: Node, least_ms: float, most_ms: float | None = None) -> bool:
    """However long the question and the answer take."""
    ahead = node.clock_ahead_ms(LONG_MS)
    assert ahead is not None
    return ahead.may_be(least_ms, least_ms if most_ms is None else most_ms)


@pytest.fixture
def clocked(make_cluster: MakeCluster) -> ProcessCluster:
    return make_cluster(nodes=2, clock_library=find_clock_library())


def test_a_step_shows_in_the_time_that_the_server_says_and_on_no_other_node(clocked: ProcessCluster) -> None:
    node, other = clocked.nodes.values()
    for step_ms in (31_000, -100_000):
        node.set_clock(ClockSetting(step_ms))
        assert is_ahead(node, step_ms)
        assert is_ahead(other, 0)
    node.set_clock(RIGHT)
    assert is_ahead(node, 0)


def test_a_step_forward_expires_keys_and_a_step_back_keeps_them(clocked: ProcessCluster) -> None:
    node, other = clocked.nodes.values()
    for each in (node, other):
        told(each, "SET", "key", "value", "PX", 30_000)
    node.set_clock(ClockSetting(31_000))
    assert told(node, "GET", "key") is None
    assert told(other, "GET", "key") == "value"
    told(node, "SET", "key", "value", "PX", 20_000)
    node.set_clock(RIGHT)
    assert 31_000 < int(str(told(node, "PTTL", "key"))) <= 51_000


@pytest.mark.parametrize("rate", [30, -30])
def test_a_clock_that_drifts_makes_keys_live_shorter_or_longer(clocked: ProcessCluster, rate: int) -> None:
    """Beside a key on a right clock, whose turn to be set and asked is such that delays count against it."""
    drifting, right = clocked.nodes.values()
    began = time.monotonic()
    drifting.set_clock(ClockSetting(rate_percent=rate))
    begun = time.monotonic()
    by_age = (drifting, right) if rate > 0 else (right, drifting)
    for node in by_age:
        told(node, "SET", "key", "value", "PX", 10_000)
    assert becomes_true(lambda: time.monotonic() > begun + 1)
    longer, shorter = (int(str(told(node, "PTTL", "key"))) for node in reversed(by_age))
    assert longer - shorter > 200
    least = 10 * rate * (time.monotonic() - begun)
    read = drifting.clock_ahead_ms(LONG_MS)
    most = 10 * rate * (time.monotonic() - began)
    assert read is not None
    assert read.may_be(min(least, most), max(least, most))


def test_a_strobe_is_ahead_and_right_by_turns(clocked: ProcessCluster) -> None:
    node, _ = clocked.nodes.values()
    node.set_clock(ClockSetting(ahead_ms=60_000, strobe_ms=50))
    seen: set[bool] = set()

    def both_seen() -> bool:
        seen.add(is_ahead(node, 60_000))
        return len(seen) == 2

    assert becomes_true(both_seen)


def test_a_clock_outlives_its_server(clocked: ProcessCluster) -> None:
    node, _ = clocked.nodes.values()
    node.kill()
    node.set_clock(ClockSetting(40_000))
    assert node.clock_ahead_ms(100) is None
    node.start()
    assert is_ahead(node, 40_000)


def test_a_node_without_a_clock_of_its_own_refuses(shared_cluster: ProcessCluster) -> None:
    node = next(iter(shared_cluster.nodes.values()))
    with pytest.raises(BrokenEnvironmentError, match="n1 has no clock of its own"):
        node.set_clock(ClockSetting(1))


def test_the_clocks_leave_nothing_behind(clocked: ProcessCluster, state: RunState) -> None:
    assert (state.path / "clocks").is_dir()
    clocked.stop()
    assert not (state.path / "clocks").exists()


@pytest.mark.needs("engine")
def test_a_clock_in_a_container(state: RunState, tmp_path: Path) -> None:
    spec = spec_of(["n1"], ["c1"], clock_library=find_clock_library())
    cluster = DockerCluster(spec, state, tmp_path / "logs")
    cluster.start()
    try:
        (node,) = cluster.nodes.values()
        told(node, "SET", "key", "value", "PX", 30_000)
        node.set_clock(ClockSetting(31_000, rate_percent=-30))
        assert told(node, "GET", "key") is None
        assert is_ahead(node, 0, 31_000)
        node.kill()
        node.start()
        assert is_ahead(node, 0, 30_999)
        node.set_clock(RIGHT)
        assert is_ahead(node, 0)
    finally:
        cluster.stop()


def test_without_the_library_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    with pytest.raises(UsageError, match="no C compiler or was not run; install one"):
        find_clock_library()
