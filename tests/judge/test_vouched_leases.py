"""Leases of a lock that renews by itself, and says yes when it is asked: until when they certainly lasted."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.vouched_leases import with_vouched_leases
from tests.judge.histories import History


def asked(*, f: str = "held", outcome: Any = "ok", key: str = "k1", client: str = "c1", **config: Any) -> History:
    """c1 has a lease of 400 ms from 8 on. From 300 on it is asked whether it still holds it; the request of that call
    comes to the node at 600."""
    history = History(**{"ttl_ms": 400, "nodes": 1, "renewal_ms": 100} | config).watch(
        *(f"n{number}" for number in range(1, config.get("nodes", 1) + 1))
    )
    history.op("c1", "acquire", "ok", 1, 5, 10, granted_ms=400.0)
    for node in history.config.node_names:
        history.request("c1", node, "SET k1 v1 NX PX 400", 6, 8).seen(node, "set", 8, "v1", since=6, ttl=400)
    history.op("c1", f, outcome, 1, 300, 610).op("c1", "release", "fail", 1, 700, 710)
    if key != "k1":
        history.request("c3", "n1", f"SET {key} v3", 20, 21).seen("n1", "set", 21, "v3", since=20, key=key)
    history.request(client, "n1", f"PEXPIRE {key} 400", 600, 604, reply="1")
    history.seen("n1", "prolonged", 604, "v1" if key == "k1" else "v3", since=600, ttl=400, key=key)
    return history.seen("n1", "blind", 9_000)


def lasted_ms(history: History) -> float:
    run = with_vouched_leases(history.recorded())
    return run.at_ms(run.sections["deadline_min_ns"].iloc[0])


def test_a_yes_speaks_of_when_its_request_came_to_the_node() -> None:
    assert lasted_ms(asked()) == pytest.approx(600, abs=4)


@pytest.mark.parametrize(
    "how",
    [
        *({"outcome": "fail"}, {"outcome": "info"}, {"f": "extend"}, {"client": "c2"}),
        *({"nodes": 3}, {"renewal_ms": None}, {"key": "other"}),
    ],
    ids=str,
)
def test_else_it_speaks_of_when_the_lock_was_asked_at_most(how: Any) -> None:
    """It said no, or nothing; it was an extension; another client's request; the nodes of a quorum answer at different
    times; the lock does not renew by itself; it changed another key."""
    assert lasted_ms(asked(**how)) < 450
