"""Every verb of a node of real processes, also twice in a row, and what survives which end."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from cluster import resp
from cluster.address import Address
from cluster.base import Cluster
from cluster.credentials import Access
from cluster.lifetime import RunState
from cluster.persistence import POLICIES, Policy
from cluster.polling import becomes_true
from cluster.ports import Ports, PortTakenError
from cluster.process import ProcessCluster
from cluster.process_node import ProcessNode
from cluster.programs import ServerProgram, find_server
from cluster.run_user import Owner
from cluster.subprocesses import is_stopped
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import PROXY
from tests.cluster.conftest import MakeCluster

ANY = Access.fresh(closed=False), Owner.of_run()
LONG_MS = 5_000
"""For what has to be seen to answer, however busy the machine is."""


def told(node: ProcessNode, *command: str) -> object:
    (reply,) = resp.ask(node.address, command, timeout_ms=LONG_MS)
    return reply


@pytest.fixture
def node(make_cluster: MakeCluster) -> ProcessNode:
    return make_cluster().nodes["n1"]


def test_starting_a_running_node_again_does_nothing(node: ProcessNode) -> None:
    before = node.pid
    node.start()
    assert node.pid == before
    assert node.is_up(LONG_MS)


def test_a_killed_node_is_down_and_comes_back_at_its_address_without_its_data(node: ProcessNode) -> None:
    address = node.address
    told(node, "SET", "key", "value")
    node.kill()
    node.kill()
    assert not node.is_up()
    node.start()
    assert node.is_up(LONG_MS)
    assert node.address == address
    assert told(node, "GET", "key") is None


def test_a_stopped_node_ends_cleanly_and_comes_back(node: ProcessNode) -> None:
    node.stop()
    node.stop()
    assert not node.is_up()
    assert "ready to exit, bye bye" in node.log_text()
    node.start()
    assert node.is_up(LONG_MS)
    assert node.log_text().count("Ready to accept connections") == 2, "the log goes on over a restart"


def condition_of(node: ProcessNode) -> str:
    return node.condition(within_ms=LONG_MS)


def test_what_the_verbs_do_is_as_wanted(node: ProcessNode) -> None:
    assert condition_of(node) == "as wanted"
    node.pause()
    assert condition_of(node) == "as wanted"
    node.resume()
    assert condition_of(node) == "as wanted"
    node.stop()
    assert condition_of(node) == "as wanted"
    node.start()
    node.kill()
    assert condition_of(node) == "as wanted"
    assert node.was_taken_down()
    assert not node.went_unasked()


def test_a_node_that_somebody_else_stops_shows_it_and_is_not_resumed(node: ProcessNode) -> None:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGSTOP)
    assert becomes_true(lambda: condition_of(node) == "stopped")
    node.resume()
    assert condition_of(node) == "stopped"
    assert not node.went_unasked()
    os.kill(node.pid, signal.SIGCONT)
    assert becomes_true(lambda: condition_of(node) == "as wanted")


def test_a_node_that_somebody_else_kills_shows_it_until_a_verb_starts_it(node: ProcessNode) -> None:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    assert becomes_true(lambda: condition_of(node) == "down")
    assert node.went_unasked()
    assert not node.was_taken_down()
    with pytest.raises(BrokenEnvironmentError):
        node.pause()
    assert condition_of(node) == "down", "a verb that fails changes nothing about what is wanted"
    node.start()
    assert condition_of(node) == "as wanted"


def test_a_pause_that_somebody_undoes_shows_it(node: ProcessNode) -> None:
    node.pause()
    assert node.pid is not None
    os.kill(node.pid, signal.SIGCONT)
    assert becomes_true(lambda: condition_of(node) == "up")
    node.resume()
    assert condition_of(node) == "as wanted"


def test_a_paused_node_that_somebody_kills_is_down(node: ProcessNode) -> None:
    node.pause()
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    assert becomes_true(lambda: condition_of(node) == "down")
    node.resume()
    assert node.went_unasked()


def test_the_proxy_is_a_part_that_shows_when_it_is_stopped_or_gone(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    (proxy,) = [part for part in cluster.parts() if part.name == PROXY]
    pid = next(c.pid for c in psutil.Process().children() if "toxiproxy" in c.cmdline()[0])
    assert proxy.condition(LONG_MS) == "as wanted"
    os.kill(pid, signal.SIGSTOP)
    assert becomes_true(lambda: proxy.condition(LONG_MS) == "stopped")
    os.kill(pid, signal.SIGCONT)
    assert becomes_true(lambda: proxy.condition(LONG_MS) == "as wanted")
    os.kill(pid, signal.SIGKILL)
    assert becomes_true(lambda: proxy.condition(LONG_MS) == "down")


def test_a_paused_node_accepts_but_does_not_answer_until_it_is_resumed(node: ProcessNode) -> None:
    pid = node.pid
    node.pause()
    node.pause()
    assert pid is not None
    assert is_stopped(pid)
    assert not node.is_up(50)
    with socket.create_connection(node.address, timeout=LONG_MS / 1e3) as accepted:
        accepted.sendall(b"PING\r\n")
        node.resume()
        node.resume()
        assert accepted.recv(100) == b"+PONG\r\n"
    assert node.is_up(LONG_MS)
    assert node.pid == pid


def test_a_paused_node_can_be_killed_and_started(node: ProcessNode) -> None:
    node.pause()
    node.kill()
    node.resume()
    assert not node.is_up()
    node.start()
    assert node.is_up(LONG_MS)


def test_a_paused_node_can_be_stopped_cleanly(node: ProcessNode) -> None:
    node.pause()
    node.stop()
    assert "ready to exit, bye bye" in node.log_text()


def test_a_paused_node_is_not_started_and_a_dead_one_not_paused(node: ProcessNode) -> None:
    node.pause()
    with pytest.raises(BrokenEnvironmentError, match="n1 is paused"):
        node.start()
    node.kill()
    with pytest.raises(BrokenEnvironmentError, match="n1 is down"):
        node.pause()


def test_a_node_that_died_by_itself_is_seen_as_down(node: ProcessNode) -> None:
    assert node.pid is not None
    process = psutil.Process(node.pid)
    os.kill(node.pid, signal.SIGKILL)
    process.wait(30)
    assert not node.is_up()
    node.start()
    assert node.is_up(LONG_MS)


def test_a_port_taken_while_a_node_was_down_is_told_in_one_line(node: ProcessNode) -> None:
    node.kill()
    with (
        socket.create_server(node.address),
        pytest.raises(PortTakenError, match=rf"n1 .* port {node.address.port} is taken") as told_of,
    ):
        node.start()
    assert "\n" not in str(told_of.value)
    node.start()
    assert node.is_up(LONG_MS)


def test_another_server_on_the_port_is_not_taken_for_the_node(node: ProcessNode, tmp_path: Path) -> None:
    node.kill()
    impostor = ProcessNode("impostor", node._program, tmp_path / "other", tmp_path / "other.log", "none", *ANY, {})
    impostor.claim(node.address)
    impostor.start()
    try:
        assert not node.is_up()
        with pytest.raises(PortTakenError, match="is taken by another program"):
            node.start()
    finally:
        impostor.kill()


def test_a_port_taken_before_the_first_start_is_replaced_by_another(
    state: RunState, redis_program: ServerProgram, tmp_path: Path
) -> None:
    node = ProcessNode("n1", redis_program, state.path / "n1", tmp_path / "n1.log", "none", *ANY, state.environment)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        node.claim(Address("127.0.0.1", taken.getsockname()[1]))
        ports = Ports()
        node.start_first(ports)
        assert node.address.port != taken.getsockname()[1]
        assert node.is_up(LONG_MS)
    node.kill()
    ports.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_runs_with_the_policy_it_was_given_and_the_resource_always_fsyncs(
    make_cluster: MakeCluster, policy: Policy
) -> None:
    cluster = make_cluster(policy=policy)
    for node, asked in ((cluster.nodes["n1"], policy), (cluster.resource, "aof-always")):
        assert node.server.config_mismatch(asked, node.effective_config()) is None


@pytest.mark.parametrize(
    ("policy", "killed", "stopped"),
    [
        ("none", None, None),
        ("rdb", None, "kept"),
        ("aof-no", "kept", "kept"),
        ("aof-everysec", "kept", "kept"),
        ("aof-always", "kept", "kept"),
    ],
)
def test_what_a_policy_keeps_over_a_kill_and_over_a_clean_stop(
    make_cluster: MakeCluster, policy: Policy, killed: str | None, stopped: str | None
) -> None:
    node = make_cluster(policy=policy).nodes["n1"]
    told(node, "CONFIG", "SET", "save", "3600 1" if policy == "rdb" else "")  # no snapshot by itself in between
    told(node, "SET", "key", "kept")
    node.kill()
    node.start()
    assert told(node, "GET", "key") == killed
    told(node, "SET", "key", "kept")
    node.stop()
    node.start()
    assert told(node, "GET", "key") == stopped


@pytest.mark.needs("valkey")
def test_nodes_on_valkey_do_what_nodes_on_redis_do_next_to_a_resource_on_redis(
    make_cluster: MakeCluster, redis_program: ServerProgram
) -> None:
    program = find_server("valkey")
    cluster = make_cluster(nodes=2, server=program, policy="aof-always")
    for part, of in (("server", program), ("resource_server", redis_program)):
        assert cluster.environment()[part] == of.facts()
    assert cluster.resource.server.running_version(cluster.resource.address, LONG_MS) == redis_program.version
    assert cluster.nodes["n1"].server.running_version(cluster.nodes["n1"].address, LONG_MS) == program.version
    node = cluster.nodes["n2"]
    assert told(node, "SET", "key", "value") == "OK"
    node.kill()
    node.start()
    assert told(node, "GET", "key") == "value"
    seen = cluster.probe([("c1", "n2"), ("c1", "resource")], LONG_MS)
    assert all(each.answered and each.applied for each in seen.values())


def test_a_cluster_of_processes_is_a_cluster(shared_cluster: ProcessCluster) -> None:
    cluster: Cluster = shared_cluster
    assert cluster.backend == "process"
    assert list(cluster.nodes) == ["n1", "n2"]
    assert set(cluster.links) == {(c, n) for c in ("c1", "c2") for n in ("n1", "n2", "resource")}
