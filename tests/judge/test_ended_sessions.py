"""A lock that vouches for a session that had ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.checkers.ended_sessions import check
from harness.explain.examples import Side
from harness.explain.server_changes import by_session
from harness.history.recorded import Recorded
from harness.history.run_tables import WireGaps
from harness.store.tables import session_is_connection
from harness.store.wire import CONNECTIONS_SCHEMA
from harness.verdict import Finding
from tests.golden import Golden
from tests.judge.histories import History, ms


def run_of(
    f: str = "release", outcome: str = "ok", *connections: dict[str, Any], ended: float | None = None
) -> Recorded:
    """A section from 10 to 50 without a time limit, and an answer from 50 to 60."""
    history = History().op("c1", "acquire", "ok", 1, 5, 10).op("c1", f, outcome, 1, 50, 60)
    return replace(history.recorded(), sessions=lambda: table(*connections), wire_gaps=gaps(ended))


def gaps(ended: float | None) -> WireGaps:
    return WireGaps(None if ended is None else ms(ended), ())


def table(*connections: dict[str, Any]) -> pa.Table:
    usual = dict.fromkeys(CONNECTIONS_SCHEMA.names, 0) | {"client": "c1", "node": "n1", "by": "client"}
    usual |= {"is_reached": True, **{f"{who}_closed_ns": None for who in ("client", "node", "proxy")}}
    rows = [usual | {"connection": number} | own for number, own in enumerate(connections)]
    return pa.Table.from_pylist(rows, CONNECTIONS_SCHEMA)


def connection(opened: float, *, client: float | None = None, node: float | None = None, **more: Any) -> dict[str, Any]:
    closed = {f"{side}_closed_ns": None if at is None else ms(at) for side, at in (("client", client), ("node", node))}
    return {"opened_ns": ms(opened), **closed, **more}


def blamed(run: Recorded) -> list[Finding]:
    return list(check(run).findings)


NEW = connection(45)


@pytest.mark.parametrize("closed", [{"client": 40}, {"node": 40}, {"client": 45, "node": 40}])
def test_a_release_that_says_yes_after_the_connection_was_closed_is_the_locks_fault(closed: dict[str, float]) -> None:
    (found,) = blamed(run_of("release", "ok", connection(1, **closed), NEW))
    assert (found.kind, found.blame, found.promise, found.count) == ("ended-session-vouched", "lock", "lease", 1)
    assert (found.examples[0]["ended_ms"], found.examples[0]["at_ms"]) == (40, 50)


@pytest.mark.parametrize("f", ["held", "extend"])
def test_a_yes_that_may_come_out_of_memory_counts_only_if_the_client_itself_had_closed(f: str) -> None:
    assert blamed(run_of(f, "ok", connection(1, client=40), NEW))
    assert not blamed(run_of(f, "ok", connection(1, node=40), NEW)), "the client need not know yet"


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_a_lock_that_does_not_say_yes_is_not_blamed(outcome: str) -> None:
    assert not blamed(run_of("release", outcome, connection(1, client=40, node=40), NEW))


@pytest.mark.parametrize(
    "connections",
    [
        (connection(1),),
        (connection(1, node=55),),
        (connection(1, client=40), connection(2)),
        (connection(1, client=4), NEW),
        (connection(1, client=40, client_name="c2"), NEW),
        (),
    ],
    ids=["open", "closed while it answered", "one of two is open", "closed before the grant", "another's", "none"],
)
def test_a_session_that_may_still_be_open_blames_no_lock(connections: tuple[dict[str, Any], ...]) -> None:
    named = [{("client" if key == "client_name" else key): value for key, value in one.items()} for one in connections]
    assert not blamed(run_of("release", "ok", *named))


def test_equal_times_blame_a_lock_only_where_the_session_had_certainly_ended() -> None:
    assert blamed(run_of("release", "ok", connection(10, client=49))), "it was opened as the lock was granted"
    assert blamed(run_of("release", "ok", connection(1, client=5))), "it was closed as the lock was asked for"
    assert not blamed(run_of("release", "ok", connection(1, client=50))), "it was closed as the release was asked for"
    assert not blamed(run_of("release", "ok", connection(1, client=40), ended=50))


def test_a_connection_that_reached_no_node_holds_no_lock() -> None:
    assert blamed(run_of("release", "ok", connection(1, client=40), connection(3, is_reached=False), NEW))


def test_nothing_is_said_after_the_record_of_the_links_ended_or_without_one() -> None:
    assert not blamed(run_of("release", "ok", connection(1, client=40), NEW, ended=45))
    without = replace(run_of("release", "ok", connection(1, client=40)), sessions=lambda: None)
    assert check(without).figures is None


def test_a_lock_that_promised_a_time_is_judged_by_that() -> None:
    history = History().op("c1", "acquire", "ok", 1, 5, 10, validity_ms=100).op("c1", "release", "ok", 1, 50, 60)
    run = replace(history.recorded(), sessions=lambda: table(connection(1, client=40)))
    assert check(run).figures is None


@pytest.mark.parametrize(
    ("cluster", "tell"),
    [
        ({"session_ends_with_connection": True}, True),
        ({"session_ends_with_connection": False}, False),  # ZooKeeper: a client carries its session to another member
        ({}, False),
        (7, False),
    ],
)
def test_connections_tell_of_sessions_only_where_the_server_ends_one_with_the_other(
    cluster: object, tell: bool
) -> None:
    assert session_is_connection({"cluster": cluster}) is tell


def overlap(released: str, *connections: dict[str, Any]) -> str:
    """Two clients inside at once, as the explanation tells it."""
    history = History().op("c1", "acquire", "ok", 1, 5, 10).op("c2", "acquire", "ok", 1, 41, 45)
    history.op("c1", "release", released, 1, 50, 60).op("c2", "release", "ok", 1, 70, 75)
    run = replace(history.recorded(), sessions=lambda: table(*connections))
    earlier, later = (side_of(run, place) for place in (0, 1))
    return by_session(run, earlier, later)[0]


def side_of(run: Recorded, place: int) -> Side:
    row = run.sections.iloc[place]
    asked = {"asked_from_ns": int(row.asked_ns), "requested_ns": None, "validity_ms": None, "token": None}
    names = ("life", "section", "start_ns", "end_ns", "deadline_min_ns", "deadline_max_ns", "extensions")
    known = {name: int(row[name]) for name in names}
    return Side(client=str(row.client), key="k1", ended=str(row.ended), **known, **asked)


def test_an_overlap_is_explained_by_what_became_of_the_first_clients_session(golden: Golden) -> None:
    golden(overlap("fail", connection(1, node=40)))
    golden(overlap("ok", connection(1, node=40)))
    golden(overlap("info", connection(1)))
