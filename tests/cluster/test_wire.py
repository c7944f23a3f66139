"""What goes over the links of a real cluster is recorded at once, and what the harness asks itself is told apart."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic_ns

import pandas as pd
import psutil
import pytest

from cluster import base_cluster
from cluster.address import Address
from cluster.base import Cut, Slices
from cluster.lifetime import RunState
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.redis_requests import decode
from harness.run.proxy_overhead import measure_overhead_us
from harness.store.wire import frame
from harness.store.wire_files import BYTES, EVENT, EVENTS
from harness.store.wire_reading import read_wire
from tests.cluster.conftest import PATIENT_S, Dialled
from tests.specs import spec_of

LONG_MS = 2_000
NODES = dict.fromkeys(["n1", "n2", "resource"], decode)


@pytest.fixture(scope="module")
def recorded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProcessCluster, Path]]:
    """Two clients and two nodes, and the folder of the record."""
    folder = tmp_path_factory.mktemp("cluster")
    with RunState.create(parent=folder / "state") as state:
        cluster = ProcessCluster(spec_of(["n1", "n2"], ["c1", "c2"]), state, folder / "logs", folder / "wire")
        cluster.start()
        try:
            yield cluster, folder / "wire"
        finally:
            cluster.stop()


def test_what_clients_ask_is_on_record_at_once_and_probes_are_told_from_it(
    recorded_cluster: tuple[ProcessCluster, Path], dial: Callable[[Address], Dialled]
) -> None:
    cluster, wire = recorded_cluster
    keys = ("c1", "n1"), ("c2", "n1"), ("c1", "n2")
    cluster.probe(keys, LONG_MS)
    measure_overhead_us(cluster.nodes["n1"], cluster.links["c1", "n1"].address, rounds=10)
    connection = dial(cluster.links["c1", "n1"].address)
    for _ in range(4):
        connection.ask("PING")
    asked = requests(wire)
    by_client = asked[asked.by == "client"]
    assert Counter(zip(by_client.client, by_client.node, strict=True)) == {keys[0]: 5}
    assert set(by_client.command) == {"PING"}
    of_the_harness = asked[asked.by == "harness"]
    assert set(zip(of_the_harness.client, of_the_harness.node, strict=True)) == set(keys)


def test_what_a_client_sends_into_a_cut_is_on_record_and_did_not_arrive(
    recorded_cluster: tuple[ProcessCluster, Path], dial: Callable[[Address], Dialled]
) -> None:
    cluster, wire = recorded_cluster
    connection = dial(cluster.links["c2", "n2"].address)
    cluster.impair([("c2", "n2")], "cut", Cut("hold", "to-node"))
    try:
        connection.send("ECHO")
        assert becomes_true(lambda: (requests(wire).command == "ECHO").any())
        (lost,) = requests(wire).query("command == 'ECHO'").itertuples()
        assert pd.isna(lost.to_node_ns)
    finally:
        cluster.restore([("c2", "n2")], "cut")


def test_what_a_client_sends_is_on_record_while_the_link_holds_it_back(
    recorded_cluster: tuple[ProcessCluster, Path], dial: Callable[[Address], Dialled]
) -> None:
    """Bytes that wait for others to go on are stamped when they arrive, all the same."""
    cluster, wire = recorded_cluster
    connection = dial(cluster.links["c1", "n2"].address)
    cluster.impair([("c1", "n2")], "slow", Slices(10_000, "to-node"))
    try:
        connection.send("ECHO " + "x" * 1_000)
        for number in range(5):
            connection.send(f"ECHO {number}")
            assert becomes_true(lambda: sent(wire) == ["x" * 1_000, *map(str, range(number + 1))])  # noqa: B023
    finally:
        cluster.restore([("c1", "n2")], "slow")


def sent(wire: Path) -> list[str]:
    asked = requests(wire).query("client == 'c1' and node == 'n2' and command == 'ECHO'")
    return [arguments[0] for arguments in asked.arguments]


def test_a_flood_fills_no_disk_and_is_not_held_up(
    tmp_path: Path, state: RunState, dial: Callable[[Address], Dialled], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 1 << 20
    monkeypatch.setattr(base_cluster, "MOST_BYTES", limit)
    cluster = ProcessCluster(spec_of(["n1"], ["c1"]), state, tmp_path / "logs", tmp_path / "wire")
    try:
        cluster.start()
        link = cluster.links["c1", "n1"].address
        before = dial(link)
        before.ask("PING")
        flood, size = b"*2\r\n$4\r\nECHO\r\n$65536\r\n" + b"x" * 65_536 + b"\r\n", 0
        with socket.create_connection(link, timeout=PATIENT_S) as flooding:
            for _ in range(64):
                flooding.sendall(flood)
                while size < 65_536:
                    size += len(flooding.recv(1 << 20))
                size = 0
        flooded_ns = monotonic_ns()
        assert before.ask("PING"), "the links go on"
    finally:
        cluster.stop()
    assert sum((tmp_path / "wire" / name).stat().st_size for name in (EVENTS, BYTES)) <= limit + EVENT.itemsize
    found = read_wire(tmp_path / "wire", NODES)
    assert found.ended_ns is not None
    asked = frame(found.requests)
    assert asked.from_client_ns.max() <= found.ended_ns < flooded_ns
    assert "ECHO" in set(asked.command)


def test_a_proxy_that_is_killed_leaves_all_that_it_had_sent_on(
    tmp_path: Path, state: RunState, dial: Callable[[Address], Dialled]
) -> None:
    known = set(psutil.Process().children(recursive=True))
    cluster = ProcessCluster(spec_of(["n1"], ["c1"]), state, tmp_path / "logs", tmp_path / "wire")
    try:
        cluster.start()
        (proxy,) = (
            each for each in set(psutil.Process().children(recursive=True)) - known if "toxiproxy" in each.name()
        )
        connection = dial(cluster.links["c1", "n1"].address)
        for number in range(5_000):  # more than the tail holds
            assert connection.ask(f"ECHO {number}")
        proxy.kill()
        proxy.wait(PATIENT_S)
    finally:
        cluster.stop()
    echoes = requests(tmp_path / "wire").query("command == 'ECHO'")
    assert [arguments[0] for arguments in echoes.arguments] == [str(number) for number in range(5_000)]
    assert echoes[["from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns"]].notna().all(axis=None)


def requests(wire: Path) -> pd.DataFrame:
    return frame(read_wire(wire, NODES).requests)
