"""What the timeline marks: the moments of findings, and which client's keys the nodes held."""

from __future__ import annotations

import pandas as pd
import pytest
from synthetic import START_NS, make_run

from harness.report.timeline import MOST_HELD, timeline
from harness.report.timeline_findings import EXAMPLES, Mark, moments
from harness.verdict import Finding

MS = 1_000_000
ROWS = {"c1": 0, "c2": 1}, {"n1": 0, "n2": 1}


def test_an_example_marks_the_rows_of_the_clients_and_nodes_that_it_names() -> None:
    overlap = {"at_ms": 5.0, "overlap_ms": 2.5, "earlier": {"client": "c2", "section": 1}, "later": {"client": "c1"}}
    lost = {"at_ms": 7.0, "for_ms": 1.0, "client": "c1", "key": "c2", "nodes": ["n2 overwritten"], "how": "n1"}
    found = moments([Finding("a", "lock", "", examples=(overlap,)), Finding("b", "lock", "", examples=(lost,))], *ROWS)
    assert found == [Mark(0, 5.0, 7.5, (0, 1), ()), Mark(1, 7.0, 8.0, (0,), (1,))]


def test_a_finding_without_timed_examples_has_its_first_moment_or_none() -> None:
    told = [Finding("a", "lock", "", examples=({"client": "c1"},)), Finding("b", "lock", "", at_ms=3.0)]
    assert moments(told, *ROWS) == [Mark(1, 3.0, 3.0, (), ())]


def test_no_finding_has_more_marks_than_examples_on_the_page() -> None:
    many = tuple({"at_ms": float(n)} for n in range(EXAMPLES + 3))
    assert len(moments([Finding("a", "lock", "", examples=many)], *ROWS)) == EXAMPLES


def held(*rows: tuple[str, object, float, float, float, str]) -> pd.DataFrame:
    """`rows`: node, client, when it was certainly set, last seen, certainly gone (ms), how it ended."""
    names = ["node", "client", "from_max_ns", "to_min_ns", "to_max_ns", "ended"]
    frame = pd.DataFrame(rows, columns=names).assign(lock_key="k1")
    for name in names[2:5]:
        frame[name] = (frame[name] * MS + START_NS).astype("int64")
    return frame


def drawn(holdings: pd.DataFrame, findings: list[tuple[Finding, str]]) -> list[tuple[int, int, int, int]]:
    """Node, client, begin and length in µs of what the timeline gets."""
    data = timeline(make_run().recorded, (), findings, holdings)["held"]
    if data is None:
        return []
    begins = pd.Series(data["step"]).cumsum().tolist()
    return list(zip(data["node"], data["client"], begins, data["length"], strict=True))


def test_a_node_held_a_key_until_it_was_certainly_gone_or_last_seen() -> None:
    rows = held(
        ("n2", "c3", 20.0, 25.0, 30.0, "lost"),
        ("n1", "c1", 10.0, 12.0, 15.0, "deleted"),
        ("n1", None, 16.0, 17.0, 18.0, "expired"),
        ("n9", "c1", 16.0, 17.0, 18.0, "expired"),
    )
    assert drawn(rows, []) == [(0, 0, 10_000, 5_000), (0, -1, 16_000, 2_000), (1, 2, 20_000, 5_000)]


@pytest.mark.parametrize(("more", "shown"), [(0, MOST_HELD), (1, 5)])
def test_of_too_many_only_those_around_findings_are_drawn(more: int, shown: int) -> None:
    far = [("n1", "c1", 20_000.0, 20_001.0, 20_002.0, "deleted")] * (MOST_HELD - 5 + more)
    near = [("n2", "c2", 5_000.0 + n, 5_001.0 + n, 5_002.0 + n, "deleted") for n in range(5)]
    finding = Finding("a", "lock", "", at_ms=5_500.0)
    found = drawn(held(*far, *near), [(finding, "the lock")])
    assert len(found) == shown
    assert {1} <= {node for node, *_ in found}
