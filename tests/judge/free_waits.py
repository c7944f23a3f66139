"""A client that waits while the lock comes free. TTL 400 ms: who waits looks again within two seconds."""

from __future__ import annotations

from typing import Any

from harness.checkers.free_waits import check
from harness.verdict import Finding
from tests.judge.histories import History, ms

FREE = 102
"""When the witness had seen that the key was gone."""


def freed(**config: Any) -> History:
    """c1 was inside; its key was gone by `FREE`, on each node."""
    history = History(**({"ttl_ms": 400, "nodes": 1, "clients": 3} | config)).section("c1", 20, 100, asked=8)
    for node in history.config.node_names:
        history.watch(node).request("c1", node, "SET k1 a NX PX 400", 10, 11).seen(node, "set", 11, "a", ttl=400)
        history.request("c1", node, "DEL k1", 100.5, 101).seen(node, "deleted", FREE, since=100)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return history


def waits(until: float, since: float = 50, *, client: str = "c2", history: History | None = None, **op: Any) -> History:
    """It asked once when its call began, which was answered at once, and was refused at the end."""
    history = history or freed()
    history.op(client, "acquire", "fail", 1, since, until, **op)
    for node in history.config.node_names:
        history.request(client, node, "SET k1 b NX PX 400", since + 1, since + 2, reply="null", did=False)
    return history


def judged(history: History, blind_at: float = 80_000) -> Any:
    for node in history.config.node_names:
        own = [event for event in history.key_events if event.node == node]
        if own and own[-1].event != "blind":
            history.seen(node, "blind", blind_at)
    return check(history.recorded())


def only(history: History) -> Finding:
    (finding,) = judged(history).findings
    return finding


def longest(history: History) -> float | None:
    answer = judged(history)
    assert bool(answer.findings) == (answer.figures.waits > 0)
    return answer.figures.longest_ms


def asks(
    history: History, every: float, until: float, node: str = "n1", since: float = 100, client: str = "c2", **more: Any
) -> History:
    at = since
    while at < until:
        history.request(client, node, "LINDEX k1:queue 0", at, at + 1, **{"reply": '"c9"', "did": False} | more)
        at += every
    return history
