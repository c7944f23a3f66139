"""The requests that the timeline of a page has: which, and what is said of each."""

from __future__ import annotations

import pytest

from harness.explain.wire_requests import WireRequests
from harness.report import timeline_requests
from harness.report.timeline_requests import timeline_requests as requests_of
from tests.explain.pictures import Links
from tests.judge.histories import ms

NODES = ("n1", "n2")


def asked(*at: float) -> WireRequests:
    links = Links()
    for moment in at:
        links.asked("c1", "n2", "SET k1 one NX PX 100", "OK", moment, moment + 0.25, moment + 0.5, moment + 0.75)
    return WireRequests(links.wire(), NODES)


def test_a_request_has_its_client_node_words_and_times() -> None:
    links = (
        Links().asked("c2", "n1", "SET k1 one NX PX 100", "OK", 5, 5.25, 5.5, 5.75).asked("c1", "n2", "DEL k1", ..., 7)
    )
    links.asked("c1", "n1", "PING", "PONG", -3, -2.9, -2.8, -2.7, keys=())
    found = requests_of(WireRequests(links.wire(), NODES), ms(0), 10_000, ("c1", "c2@1", "c2@2"), NODES, ())
    assert found is not None
    assert [found["who"][one] for one in found["client"]] == ["c2", "c1"], "what was sent before the load is left out"
    assert found["rows"] == [[1, 2], [0]], "all tasks of a process, which share its links"
    assert [NODES[one] for one in found["node"]] == ["n1", "n2"]
    assert [found["words"][one] for one in found["word"]] == ["SET k1 NX PX 100", "DEL k1"]
    assert found["replies"][found["reply"][0]] == "OK"
    assert (found["step"], found["total"]) == ([5_000, 2_000], 2)
    assert (found["reached"], found["left"], found["came"]) == ([250, -1], [500, -1], [750, -1])
    assert found["kept"] == [(0, 10_000)]


def test_of_many_the_ones_nearest_to_the_moments_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_requests, "MOST_REQUESTS", 4)
    found = requests_of(asked(1, 2, 3, 4, 5, 6, 7, 8), ms(0), 10_000, ("c1",), NODES, (2_100, 7_900))
    assert found is not None
    assert found["total"] == 8
    assert [sum(found["step"][: n + 1]) for n in range(4)] == [2_000, 3_000, 7_000, 8_000]
    assert found["kept"] == [(1_001, 3_999), (6_001, 10_000)], "where none was left out"


def test_a_run_without_a_record_of_requests_has_none() -> None:
    assert requests_of(asked(), ms(0), 10_000, ("c1",), NODES, ()) is None
