"""What a run recorded of its links agrees with itself and with the rest of the folder, or is called damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.errors import UsageError
from harness.config import RunConfig
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.store.wire import CONNECTIONS, FITS, REQUESTS, Wire
from harness.store.wire_folder import digest_of, load_wire
from harness.store.wire_soundness import check_wire
from tests.export.wires import connection, request, wire
from tests.judge.histories import History, ms

Row = dict[str, Any]
Edit = Callable[[list[Row], list[Row]], object]

SERVED = {"node": "resource", "connection": 2}


def written(tmp_path: Path, edit: Edit = lambda requests, connections: None) -> tuple[RunFolder, Recorded]:
    """A run with one write, whose two tables were edited and sealed as if they had been recorded so."""
    history = History(clients=2)
    history.section("c1", 10, 50).write("c1", 1, at=20)
    history.timeline.end_ns = ms(1_000)
    run = history.recorded()
    requests = [
        request("SET", "k1", "v", at=(ms(8), ms(8.1), ms(8.2), ms(9)), reply='"OK"'),
        request("GET", "k1", at=(ms(8.5), ms(8.6), ms(8.7), ms(9.5)), reply='"v"'),
        request("EVAL", "x", at=(ms(20.2), ms(20.3), ms(20.4), ms(20.8)), reply="1", **SERVED),
        request("PING", at=(ms(60),)),
    ]
    connections = [
        connection(1, opened=ms(1), client_closed_ns=ms(90), **counted(100, 90, 80, 70)),
        connection(2, opened=ms(2), node="resource", node_closed_ns=ms(95), **counted(50, 50, 20, 20)),
    ]
    edit(requests, connections)
    folder = RunFolder.create(tmp_path, RunConfig(seed=1, clients=2, nodes=3))
    save(folder, wire(requests, connections))
    return folder, run


def counted(*numbers: int) -> Row:
    return dict(zip(("from_client_bytes", "to_node_bytes", "from_node_bytes", "to_client_bytes"), numbers, strict=True))


def save(folder: RunFolder, tables: Wire) -> None:
    pq.write_table(tables.requests, folder.path / REQUESTS)
    fits = {FITS: digest_of(folder, tables.connections)}
    pq.write_table(tables.connections.replace_schema_metadata(fits), folder.path / CONNECTIONS)


def test_tables_that_agree_are_believed(tmp_path: Path) -> None:
    check_wire(*written(tmp_path))


def test_a_run_that_recorded_no_links_has_nothing_to_check(tmp_path: Path) -> None:
    check_wire(RunFolder.create(tmp_path, RunConfig(seed=1)), History().recorded())


@pytest.mark.parametrize("name", [REQUESTS, CONNECTIONS])
def test_one_table_alone_is_damage(tmp_path: Path, name: str) -> None:
    folder, run = written(tmp_path)
    (folder.path / name).unlink()
    with pytest.raises(UsageError, match=f"{name} is missing"):
        check_wire(folder, run)


@pytest.mark.parametrize("name", [REQUESTS, CONNECTIONS])
def test_a_table_that_was_changed_alone_does_not_fit(tmp_path: Path, name: str) -> None:
    folder, run = written(tmp_path)
    table = pq.read_table(folder.path / name)
    pq.write_table(table[:-1], folder.path / name)
    with pytest.raises(UsageError, match="does not fit"):
        check_wire(folder, run)


def test_the_tables_of_another_run_do_not_fit(tmp_path: Path) -> None:
    folder, run = written(tmp_path)
    other = RunFolder.create(tmp_path, RunConfig(seed=2, clients=2, nodes=3))
    for name in (REQUESTS, CONNECTIONS):
        (other.path / name).write_bytes((folder.path / name).read_bytes())
    with pytest.raises(UsageError, match="another run's"):
        check_wire(other, run)


def at(table: int, row: int, **fields: Any) -> Edit:
    def edit(*tables: list[Row]) -> None:
        tables[table][row] |= fields

    return edit


def swapped(requests: list[Row], connections: list[Row]) -> None:
    requests[0], requests[1] = requests[1], requests[0]


ASKED, OPENED = 0, 1


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (at(OPENED, 0, node="n9"), "the run had no link c1-n9"),
        (at(OPENED, 0, client="c3"), "the run had no link c3-n1"),
        (at(OPENED, 1, connection=1), "two connections have one number"),
        (at(OPENED, 0, client_closed_ns=0), "closed before it was opened"),
        (at(OPENED, 0, proxy_closed_ns=0), "closed before it was opened"),
        (at(OPENED, 1, node_closed_ns=0), "closed before it was opened"),
        (at(OPENED, 0, to_node_bytes=101), "more bytes were sent on than had come"),
        (at(OPENED, 0, to_client_bytes=81), "more bytes were sent on than had come"),
        (at(OPENED, 0, to_client_bytes=-1), "fewer than no bytes"),
        (at(OPENED, 0, not_understood_bytes=181), "more foreign bytes than bytes"),
        (at(OPENED, 0, opened_ns=ms(1_000) + 3_600_000_000_001, client_closed_ns=None), "far from the run"),
        (at(OPENED, 0, opened_ns=ms(0) - 3_600_000_000_001), "far from the run"),
        (at(ASKED, 0, connection=3), f"a connection that is not in {CONNECTIONS}"),
        (at(ASKED, 0, node="n2"), "not of its connection's link"),
        (at(ASKED, 0, client="c2"), "not of its connection's link"),
        (at(ASKED, 0, by="harness"), "not of its connection's link"),
        (swapped, "not in the order in which they came"),
        (at(ASKED, 0, to_node_ns=ms(7.9)), "sent on before it had come"),
        (at(ASKED, 0, to_client_ns=ms(8.1)), "a reply was sent on before it had come"),
        (at(ASKED, 0, from_client_ns=ms(0.9)), "before its connection was opened"),
        (at(ASKED, 0, from_node_ns=ms(0.9)), "before its connection was opened"),
        (at(OPENED, 0, client_closed_ns=ms(59)), "after its client had closed"),
        (at(OPENED, 0, node_closed_ns=ms(8.6)), "a reply came after its node had closed"),
        (at(ASKED, 0, reply=None), "a reply that never came"),
        (at(ASKED, 3, reply="1"), "a reply that never came"),
        (at(ASKED, 0, task="c2"), "of a task that its client did not have"),
        (at(ASKED, 0, task="c1@1"), "of a task that its client did not have"),
        (at(ASKED, 0, to_node_ns=ms(8.65)), "overtook each other"),
        (at(ASKED, 0, to_node_ns=None), "overtook each other"),
        (at(ASKED, 2, from_client_ns=ms(19.9)), "no request of that time"),
        (at(ASKED, 2, to_client_ns=ms(21.1)), "no request of that time"),
        (at(ASKED, 2, to_client_ns=None), "no request of that time"),
        (lambda requests, connections: requests.pop(2), "no request of that time"),
    ],
)
def test_what_cannot_have_been_is_damage(tmp_path: Path, edit: Edit, what: str) -> None:
    folder, run = written(tmp_path, edit)
    with pytest.raises(UsageError) as raised:
        check_wire(folder, run)
    assert what in str(raised.value)
    assert "is damaged" in str(raised.value)


@pytest.mark.parametrize(
    "edit",
    [
        at(OPENED, 0, opened_ns=ms(8)),
        at(OPENED, 0, client_closed_ns=ms(60)),
        at(OPENED, 0, node_closed_ns=ms(8.7)),
        at(OPENED, 0, to_node_bytes=100, to_client_bytes=80, not_understood_bytes=180),
        at(OPENED, 0, opened_ns=ms(0) - 3_600_000_000_000),
        at(ASKED, 0, task="c1"),
        at(ASKED, 0, to_node_ns=ms(8)),
        at(ASKED, 0, to_node_ns=ms(8.6)),
        at(ASKED, 0, to_client_ns=ms(8.2)),
        at(ASKED, 1, from_client_ns=ms(8)),
        at(ASKED, 2, from_client_ns=ms(20), to_client_ns=ms(21)),
    ],
)
def test_what_can_just_have_been_is_believed(tmp_path: Path, edit: Edit) -> None:
    check_wire(*written(tmp_path, edit))


def test_a_reply_that_came_before_its_request_was_sent_on_is_believed(tmp_path: Path) -> None:
    """A node that has too many connections says so unasked."""
    check_wire(*written(tmp_path, at(ASKED, 0, from_node_ns=ms(7), reply='{"error":"ERR max number of clients"}')))


def test_of_what_came_after_a_record_became_too_large_nothing_is_expected(tmp_path: Path) -> None:
    folder, run = written(tmp_path, lambda requests, connections: requests.pop(2))
    tables = [pq.read_table(folder.path / name) for name in (REQUESTS, CONNECTIONS)]
    for ended, is_believed in ((ms(20.5), True), (ms(21.5), False)):
        tables[1] = tables[1].replace_schema_metadata({b"ended": b"%d" % ended, FITS: digest_of(folder, tables[1])})
        pq.write_table(tables[1], folder.path / CONNECTIONS)
        if is_believed:
            check_wire(folder, run)
        else:
            with pytest.raises(UsageError, match="no request of that time"):
                check_wire(folder, run)


def test_a_pipe_in_place_of_a_table_is_refused(tmp_path: Path) -> None:
    folder, run = written(tmp_path)
    (folder.path / REQUESTS).unlink()
    os.mkfifo(folder.path / REQUESTS)
    with pytest.raises(UsageError, match="not a regular file"):
        check_wire(folder, run)


def test_a_table_without_rows_is_one(tmp_path: Path) -> None:
    def none(requests: list[Row], connections: list[Row]) -> None:
        requests.clear()
        connections.clear()

    folder, _ = written(tmp_path, none)
    check_wire(folder, History(clients=2).recorded())
    assert isinstance(pq.read_table(folder.path / REQUESTS), pa.Table)


@pytest.mark.parametrize(("name", "column"), [(CONNECTIONS, "node_port"), (REQUESTS, "database")])
def test_tables_that_another_version_wrote_are_told_in_one_line(tmp_path: Path, name: str, column: str) -> None:
    folder, _ = written(tmp_path)
    path = folder.path / name
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    with pytest.raises(UsageError) as raised:
        load_wire(folder)
    assert str(raised.value).startswith(f"{path} has no column {column}: another version of fencepost made this run")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", [CONNECTIONS, REQUESTS])
def test_a_table_that_is_cut_short_is_damaged(tmp_path: Path, name: str) -> None:
    folder, _ = written(tmp_path)
    path = folder.path / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match=f"^{path} is damaged: "):
        load_wire(folder)
