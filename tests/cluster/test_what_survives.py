"""What each persistence policy is worth: a client writes steadily, its node goes down, and what was acknowledged is
looked for.

Three nodes of one cluster go down at about the same moment, each in another way.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from cluster import resp
from cluster.address import Address
from cluster.base import Cluster, Node
from cluster.docker import DockerCluster
from cluster.lifetime import RunState
from cluster.persistence import POLICIES, Policy
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.server_node import ServerNode
from tests.harness.second_tries import first_that_counts
from tests.specs import site_of, spec_of

pytestmark = pytest.mark.needs("ext4")

End = Literal["shutdown", "kill", "power cut"]
ENDS: tuple[End, ...] = ("shutdown", "kill", "power cut")

Loss = Literal["nothing", "the tail", "nearly all", "all"]
PROMISED: dict[Policy, tuple[Loss, Loss, Loss]] = {
    "none": ("all", "all", "all"),
    "rdb": ("nothing", "the tail", "the tail"),
    "aof-no": ("nothing", "nothing", "nearly all"),
    "aof-everysec": ("nothing", "nothing", "the tail"),
    "aof-always": ("nothing", "nothing", "nothing"),
}
"""What is lost by a shutdown, by a kill (of what the server has handed to the kernel) and by a power cut."""

LONG_S, SHORT_S = 3.5, 0.7
"""How long to write at least; a tail is told from the rest only when there is a rest."""
STEADY = 100
"""How many writes each node acknowledges at least; a busy disk syncs for `always` fewer than a hundred a second."""
SURELY_SYNCED_S = 2.5
"""`everysec` lets a slow fsync take up to a second more; `rdb` begins a snapshot a second after the last one ended."""


@dataclass
class Writer:
    """Sets k0, k1, … one after the other until the connection ends or `stop`; `acknowledged_s` has the moment of each
    OK."""

    address: Address
    acknowledged_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        try:
            with socket.create_connection(self.address, timeout=5) as connection:
                while not self._stopped.is_set():
                    connection.sendall(resp.encode("SET", f"k{len(self.acknowledged_s)}", "x"))
                    if connection.recv(100) != b"+OK\r\n":
                        return
                    self.acknowledged_s.append(time.monotonic())
                    time.sleep(0.001)  # steady, and not more than can be looked at afterwards
        except OSError:
            return

    def wait_until_steady(self) -> None:
        assert becomes_true(lambda: len(self.acknowledged_s) > STEADY, within_s=30)

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


@dataclass
class Outcome:
    """`survived`: by write, in order. `went_down_s`: when the end was asked for."""

    acknowledged_s: list[float]
    survived: list[bool]
    went_down_s: float

    def check(self, loss: Loss) -> None:
        kept, total = sum(self.survived), len(self.survived)
        assert total > STEADY
        assert self.survived == sorted(self.survived, reverse=True), "what is lost is the end of what was written"
        assert self.is_telling(loss), "what was not synced is lost"
        match loss:
            case "nothing":
                assert kept == total
            case "the tail":
                synced = sum(at_s < self.went_down_s - SURELY_SYNCED_S for at_s in self.acknowledged_s)
                assert 0 < synced <= kept
            case "all":
                assert kept == 0

    def is_telling(self, loss: Loss) -> bool:
        """False if so much is left as when the end comes right after a sync, which it may by chance."""
        most = {"the tail": 1.0, "nearly all": 0.1}
        return loss not in most or sum(self.survived) < most[loss] * len(self.survived)


def go_down(node: Node, end: End) -> None:
    {"shutdown": node.stop, "kill": node.kill, "power cut": node.cut_power}[end]()


def has_handed_over(node: Node) -> bool:
    """Whether the kernel has everything that the server acknowledged. With `everysec` the server keeps writes back for
    up to two seconds while the sync before is under way (`flushAppendOnlyFile`)."""
    (info,) = resp.ask(node.address, ("INFO", "persistence"), timeout_ms=5_000)
    return "aof_buffer_length:0\r\n" in str(info)


def outcome_of(node: Node, end: End, loss: Loss, writer: Writer) -> Outcome:
    if (end, loss) == ("kill", "nothing"):
        writer.stop()
        assert becomes_true(lambda: has_handed_over(node), within_s=10)
    went_down_s = time.monotonic()
    go_down(node, end)
    assert not node.is_up()
    writer.join()
    node.start()
    keys = [f"k{number}" for number in range(len(writer.acknowledged_s))]
    (values,) = resp.ask(node.address, ("MGET", *keys), timeout_ms=5_000)
    assert isinstance(values, list)
    return Outcome(writer.acknowledged_s, [value is not None for value in values], went_down_s)


def bring_up(backend: str, policy: Policy, folder: Path, stack: ExitStack) -> Cluster:
    make = ProcessCluster if backend == "process" else DockerCluster
    state = stack.enter_context(RunState.create(parent=folder / "state", site=site_of(backend)))
    cluster = make(spec_of(["n1", "n2", "n3"], [], policy=policy, disks="ext4"), state, folder / "logs")
    stack.callback(cluster.stop)
    cluster.start()
    return cluster


CASES = [pytest.param(("process", policy), id=f"process-{policy}") for policy in POLICIES] + [
    pytest.param(("docker", policy), id=f"docker-{policy}", marks=pytest.mark.needs("engine"))
    for policy in ("aof-no", "aof-everysec", "aof-always")
]


def play(backend: str, policy: Policy, folder: Path) -> dict[End, Outcome]:
    """Let the three nodes of a new cluster go down."""
    with ExitStack() as stack:
        cluster = bring_up(backend, policy, folder, stack)
        nodes = list(cluster.nodes.values())
        assert [node.server.config_mismatch(policy, node.effective_config()) for node in nodes] == [None] * 3
        writers = [Writer(node.address) for node in nodes]
        time.sleep(LONG_S if "the tail" in PROMISED[policy] else SHORT_S)
        for writer in writers:
            writer.wait_until_steady()
        ends = zip(nodes, ENDS, PROMISED[policy], writers, strict=True)
        return {end: outcome_of(node, end, loss, writer) for node, end, loss, writer in ends}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, dict[End, Outcome]]:
    backend, policy = request.param
    return policy, first_that_counts(
        tmp_path_factory.mktemp("survives"),
        lambda folder: play(backend, policy, folder),
        lambda outcomes: all(outcomes[end].is_telling(loss) for end, loss in zip(ENDS, PROMISED[policy], strict=True)),
    )


@pytest.mark.parametrize("end", ENDS)
def test_what_was_acknowledged_survives_as_far_as_the_policy_promises(
    case: tuple[Policy, dict[End, Outcome]], end: End
) -> None:
    policy, outcomes = case
    outcomes[end].check(PROMISED[policy][ENDS.index(end)])


@pytest.mark.parametrize("backend", ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))])
@pytest.mark.parametrize("state", ["up", "paused", "killed"])
def test_a_server_stands_still_while_its_disk_is_cut(
    backend: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it may answer OK to a write whose fsync was overtaken by the cut, once in some thirty cuts."""
    with ExitStack() as stack:
        node = bring_up(backend, "aof-always", tmp_path, stack).nodes["n1"]
        assert isinstance(node, ServerNode)
        disk = node._disk
        assert disk is not None
        cut, seen = disk.cut_power, []

        def watched() -> None:
            seen.append((node._is_running(), node._is_paused()))
            cut()

        monkeypatch.setattr(disk, "cut_power", watched)
        if state == "paused":
            node.pause()
        elif state == "killed":
            node.kill()
        node.cut_power()
        assert seen == [(False, False) if state == "killed" else (True, True)]
        assert not node.is_up()
        node.start()
        assert resp.ask(node.address, ("PING",), timeout_ms=5_000) == ["PONG"]


def test_time_passes_for_a_lease_while_its_node_is_down(tmp_path: Path) -> None:
    with ExitStack() as stack:
        node = bring_up("process", "aof-always", tmp_path, stack).nodes["n1"]
        for end in ENDS:
            replies = resp.ask(
                node.address, ("SET", "short", "x", "PX", 200), ("SET", "long", "x", "PX", 60_000), timeout_ms=1_000
            )
            assert replies == ["OK", "OK"]
            set_s = time.monotonic()
            go_down(node, end)
            time.sleep(0.3)  # a delayed restart, longer than the short lease
            node.start()
            down_ms = (time.monotonic() - set_s) * 1000
            short, long_ms = resp.ask(node.address, ("GET", "short"), ("PTTL", "long"), timeout_ms=1_000)
            assert short is None
            assert isinstance(long_ms, int)
            assert 0 < long_ms <= 60_000 - down_ms + 1
