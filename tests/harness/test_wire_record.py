"""`--wire`: what real clients and nodes said to each other is on record, request by request."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pandas as pd
import pytest

import fencepost
from cluster.polling import becomes_true
from harness.store.run_folder import RunFolder
from harness.store.wire_files import EVENTS
from tests.harness import runs

BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]
WAY = ["from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns"]


def of_the_lock(run: fencepost.Run) -> pd.DataFrame:
    """What the lock asked the nodes."""
    return run.requests[(run.requests.by == "client") & (run.requests.node != "resource")]


@pytest.fixture(scope="module", params=BACKENDS)
def fault_free(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> fencepost.Run:
    """A run without faults, for tests that only read it."""
    folder = tmp_path_factory.mktemp("fault-free")
    code, out, err = runs.fencepost(folder, *runs.short_run("--nemesis", "none", cluster=str(request.param)))
    assert code == 0, out + err
    return fencepost.load(runs.only_run(folder))


def test_each_request_is_on_record_with_its_way(fault_free: fencepost.Run) -> None:
    run = fault_free
    asked = of_the_lock(run)
    assert asked[WAY].notna().all(axis=None), "without faults, everything arrives and is answered"
    for before, after in itertools.pairwise(WAY):
        assert (asked[before] <= asked[after]).all()
    assert run.connections.not_understood_bytes.sum() == 0
    assert not RunFolder.open(run.path).wire.exists(), "the tables took its place"

    sets = asked[(asked.command == "SET") & (asked.reply == '"OK"')]
    granted = sets.groupby(["client", sets.arguments.str[1]]).node.nunique()
    by_majority = (granted >= 3).groupby("client").sum()
    entered = run.sections.groupby("client", observed=True).size()
    assert len(entered), "some client got in"
    assert (entered <= by_majority.reindex(entered.index, fill_value=0)).all()


def test_no_password_is_on_record(fault_free: fencepost.Run) -> None:
    logins = fault_free.requests.query("command == 'AUTH'")
    assert len(logins)
    assert {arguments[-1] for arguments in logins.arguments} == {"***"}


def test_what_a_partition_lost_is_seen_to_be_lost(tmp_path: Path) -> None:
    cut = "partition:kind=drop,direction=to-node,interval=500ms,duration=400ms"
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", cut))
    assert code in (0, 2), out + err
    asked = of_the_lock(fencepost.load(runs.only_run(tmp_path)))
    assert asked.to_node_ns.isna().any(), "requests were lost on the way to a node"
    assert asked[asked.to_node_ns.isna()].reply.isna().all()


GARBAGE = """
import os, socket
from workloads.locks.redlock import Redlock

class Garbage(Redlock):
    def __init__(self, nodes, settings):
        super().__init__(nodes, settings)
        if settings.log_path.name.startswith("c3."):
            with socket.create_connection((nodes[1].host, nodes[1].port)) as other:
                other.sendall(b"\\x16\\x03" * 2048)
                other.shutdown(socket.SHUT_WR)
                while other.recv(1 << 16):
                    pass
"""


def test_bytes_that_are_not_the_server_s_protocol_are_counted_and_shown(tmp_path: Path) -> None:
    (tmp_path / "garbage.py").write_text(GARBAGE)
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "none", "--lock", "garbage:Garbage"))
    assert code == 0, out + err
    assert "c3's link to n2: 4,096 bytes are not Redis's protocol" in " ".join(out.split())
    run = fencepost.load(runs.only_run(tmp_path))
    foreign = run.connections[run.connections.not_understood_bytes > 0]
    assert [(row.client, row.node, row.not_understood_bytes) for row in foreign.itertuples()] == [("c3", "n2", 4096)]


def test_each_change_of_a_key_has_the_request_that_made_it(fault_free: fencepost.Run) -> None:
    assert_changes_have_their_requests(fault_free)


def test_each_change_of_a_key_has_its_request_although_links_hold_requests_up(tmp_path: Path) -> None:
    hold = "partition:kind=hold,interval=500ms,duration=400ms"
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", hold))
    assert code in (0, 2), out + err
    assert_changes_have_their_requests(fencepost.load(runs.only_run(tmp_path)))


def assert_changes_have_their_requests(run: fencepost.Run) -> None:
    assert run.ledger is not None
    assert len(run.ledger) > 20
    assert set(run.ledger.cause) <= {"request", "several", "expiry"}
    made = run.ledger[run.ledger.cause == "request"]
    asked = run.requests.iloc[made.request.astype(int)]
    assert (asked.command.to_numpy() == made.command.to_numpy()).all()
    assert (made.to_node_ns <= made.at_ns).all()
    assert {"acquire", "release"} <= set(made[made.is_in_call].f)


def test_without_it_nothing_is_kept(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "none", "--wire", "off"))
    assert code == 0, out + err
    run = fencepost.load(runs.only_run(tmp_path))
    assert len(run.requests) == len(run.connections) == 0
    assert run.ledger is None
    assert not (run.path / "requests.parquet").exists()


def test_a_harness_that_is_killed_leaves_what_had_been_recorded(tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "none", "--duration", "30s"))
    try:
        results = tmp_path / "results" / "runs"
        assert becomes_true(
            lambda: any(log.stat().st_size > 100_000 for log in results.glob(f"*/wire/{EVENTS}")), within_s=30
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    run = fencepost.load(runs.only_run(tmp_path))
    assert (of_the_lock(run).command == "SET").sum() > 100
    assert run.verdict.verdict == "unknown"
