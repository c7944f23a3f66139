"""A whole cluster of processes comes up, is reachable from this host only, and goes away without a trace."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from cluster.base import RESOURCE
from cluster.lifetime import RunState
from cluster.ports import ephemeral_range
from cluster.process import ProcessCluster
from cluster.programs import ServerProgram, ToxiproxyProgram
from cluster.run_processes import RUN_VARIABLE
from cluster.unix_socket import listener_of
from fencepost.errors import BrokenEnvironmentError
from tests.cluster.conftest import MakeCluster
from tests.processes import every_process
from tests.specs import spec_of

LONG_MS = 10_000
"""For a probe that has to see answers, however busy the machine is."""


def processes_of(state: RunState) -> list[psutil.Process]:
    found = []
    for process in every_process():
        try:
            if process.environ().get(RUN_VARIABLE) == state.run_id:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_sixty_links_come_up_and_all_answer(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=5, clients=10)
    assert len(cluster.links) == 60
    seen = cluster.probe(list(cluster.links), timeout_ms=LONG_MS)
    assert all(result.answered and result.applied and not result.refused for result in seen.values())
    assert len({link.address for link in cluster.links.values()}) == 60


def test_nothing_listens_on_anything_but_loopback(make_cluster: MakeCluster, state: RunState) -> None:
    cluster = make_cluster(nodes=2, clients=2)
    processes = processes_of(state)
    assert sorted(process.name() for process in processes) == ["fencepost-toxiproxy"] + ["redis-server"] * 3
    listening = [
        connection.laddr
        for process in processes
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 3 + len(cluster.links)
    assert {address.ip for address in listening} == {"127.0.0.1"}
    low, high = ephemeral_range()
    assert not [address for address in listening if low <= address.port <= high]


def test_stopping_leaves_no_process_and_no_folder_but_the_logs(
    make_cluster: MakeCluster, state: RunState, tmp_path: Path
) -> None:
    cluster = make_cluster(nodes=2)
    cluster.nodes["n1"].pause()
    cluster.nodes["n2"].kill()
    assert processes_of(state)
    cluster.stop()
    cluster.stop()
    assert not processes_of(state)
    assert [path.name for path in state.path.iterdir()] == ["owner.lock"]
    logs = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert logs == ["n1.log", "n2.log", "resource.log", "toxiproxy.log"]


def test_every_process_has_a_session_of_its_own(make_cluster: MakeCluster, state: RunState) -> None:
    """A Ctrl-C at the terminal goes to the harness alone, which then heals and ends the others in order."""
    make_cluster()
    processes = processes_of(state)
    assert len(processes) == 3
    assert all(os.getsid(process.pid) == process.pid for process in processes)


def broken_program(path: Path) -> Path:
    path.write_text("#!/bin/sh\necho this program is broken >&2\nexit 7\n")
    path.chmod(0o755)
    return path


def test_a_server_that_ends_at_once_is_told_with_its_words_and_leaves_nothing(state: RunState, tmp_path: Path) -> None:
    server = ServerProgram(broken_program(tmp_path / "broken"), "redis", "0")
    cluster = ProcessCluster(spec_of(["n1"], ["c1"], server=server), state, tmp_path / "logs")
    with pytest.raises(BrokenEnvironmentError, match="ended at once with 7; its last words: this program is broken"):
        cluster.start()
    assert not processes_of(state)


def test_a_toxiproxy_that_ends_at_once_is_told_and_leaves_nothing(state: RunState, tmp_path: Path) -> None:
    proxy = ToxiproxyProgram(broken_program(tmp_path / "broken"), "0")
    cluster = ProcessCluster(spec_of(["n1"], ["c1"], toxiproxy=proxy), state, tmp_path / "logs")
    with pytest.raises(BrokenEnvironmentError, match="Toxiproxy ended at once"):
        cluster.start()
    assert not processes_of(state)
    assert not (state.path / "process").exists()


def test_a_cluster_can_be_started_again_after_it_was_stopped(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.stop()
    assert not cluster.links
    cluster.start()
    assert cluster.probe([("c1", RESOURCE)], LONG_MS)["c1", RESOURCE].answered


def test_the_environment_names_versions_and_paths(make_cluster: MakeCluster, redis_program: ServerProgram) -> None:
    told = make_cluster().environment()
    assert told["backend"] == "process"
    redis = redis_program.facts()
    assert redis["path"] == str(redis_program.path)
    assert (told["server"], told["resource_server"], told["key_events"]) == (redis, redis, True)
    proxy = told["toxiproxy"]
    assert isinstance(proxy, dict)
    assert str(proxy["version"]).startswith("2.")


def test_the_proxy_is_who_listens_at_its_socket(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    assert cluster._proxy_process is not None
    assert listener_of(cluster.proxy_socket) == cluster._proxy_process.pid
    cluster.stop()
    assert listener_of(cluster.proxy_socket) is None
