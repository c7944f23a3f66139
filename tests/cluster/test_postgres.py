"""PostgreSQL as a server: its verbs act on the whole tree of its processes, and probes see what a session saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.address import Address
from cluster.credentials import Access
from cluster.lifetime import RunState
from cluster.ports import Ports
from cluster.postgres_messages import PostgresConnection, ask
from cluster.process_node import ProcessNode
from cluster.process_tree import tree_of
from cluster.programs import find_server
from cluster.run_user import Owner
from cluster.subprocesses import is_stopped
from fencepost.history import Write
from harness.run.database import Database
from workloads.resource import encoded
from workloads.sql_counter import TABLES, WRITE, SqlCounter

pytestmark = pytest.mark.needs("lock:postgres-advisory")

TRY = "SELECT pg_try_advisory_lock(1)"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessNode]:
    program, ports = find_server("postgres"), Ports()
    access, log = Access.fresh(closed=False), tmp_path_factory.mktemp("log") / "n1.log"
    with RunState.create(parent=tmp_path_factory.mktemp("state")) as state:
        where, environment = state.path / "n1", state.environment
        server = ProcessNode("n1", program, where, log, "aof-always", access, Owner.of_run(), environment)
        server.claim(Address("127.0.0.1", ports.take(1)[0]))
        server.start_first(ports)
        yield server
        server.kill()
    ports.close()


def session(node: ProcessNode) -> PostgresConnection:
    connection = PostgresConnection(node.address, 5_000)
    connection.wait()
    return connection


def uids(pids: Iterable[int]) -> Iterator[int]:
    """Of those that still run: a session's process ends with it."""
    for pid in pids:
        with suppress(FileNotFoundError):
            yield Path(f"/proc/{pid}").stat().st_uid


def test_it_never_runs_as_root_and_says_who_it_is(node: ProcessNode) -> None:
    assert node.pid is not None
    assert 0 not in uids(tree_of(node.pid)) or Owner.of_run().uid == 0
    assert node.server.running_version(node.address, 2_000) == "18.6"
    effective = node.effective_config()
    assert node.server.config_mismatch("aof-always", effective) is None
    assert node.server.config_mismatch("aof-always", {**effective, "fsync": "off"}) == "fsync is 'off', not 'on'"


def test_a_pause_stops_open_sessions_too(node: ProcessNode) -> None:
    with session(node) as own:
        assert own.ask(TRY) == [("t",)]
        node.pause()
        assert node.pid is not None
        assert all(map(is_stopped, tree_of(node.pid)))
        node.resume()
        assert own.ask("SELECT 1") == [("1",)]


def test_a_kill_ends_the_sessions_so_that_the_next_start_works_and_the_lock_is_free(node: ProcessNode) -> None:
    with session(node) as busy:
        assert busy.ask(TRY) == [("t",)]
        assert ask(node.address, TRY, 2_000) == [("f",)]
        node.kill()
        node.start()
        assert ask(node.address, TRY, 2_000) == [("t",)]


def test_a_probe_sees_whether_the_node_had_the_session(node: ProcessNode) -> None:
    links, nodes = {("c1", "n1"): node.address}, {"n1": node.address}
    seen = node.server.probe_links(links, nodes, 2_000)["c1", "n1"]
    assert (seen.answered, seen.applied, seen.refused) == (True, True, False)
    node.pause()
    hung = node.server.probe_links(links, nodes, 100)["c1", "n1"]
    node.resume()
    assert (hung.answered, hung.applied) == (False, None)


def test_an_error_is_raised_in_the_servers_words(node: ProcessNode) -> None:
    with session(node) as own, pytest.raises(OSError, match="42601"):
        own.ask("SELEC 1")


def test_writes_of_a_key_are_numbered_in_the_order_of_their_commits(node: ProcessNode) -> None:
    assert node.server.query is not None
    database = Database(node.server.query, node.address, 5_000)
    database.make(TABLES)
    database.make(TABLES)
    with session_of_a_client(node) as first, session_of_a_client(node) as other:
        first.ask("BEGIN")
        first.ask(written(1, "c1"))
        other.send(written(2, "c2"))
        assert database.accepted_since(0) == []
        first.ask("COMMIT")
        other.wait()
    accepted = [(write.client, write.value) for write in database.accepted_since(0)]
    assert accepted == [("c1", 1), ("c2", 2)]
    assert database.accepted_since(1) == [Write("k1", 0, "c2", 1, 2)]
    assert SqlCounter(database).final(["k1", "k2"]) == {"k1": 2, "k2": 0}


def session_of_a_client(node: ProcessNode) -> PostgresConnection:
    connection = PostgresConnection(node.address, 5_000, database="locks")
    connection.wait()
    return connection


def written(value: int, client: str) -> str:
    record = encoded(Write("k1", 0, client, 1, value)).decode()
    return WRITE.replace("$1", "'k1'").replace("$2", str(value)).replace("$3", f"'{record}'")
