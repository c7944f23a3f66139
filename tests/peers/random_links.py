"""Random histories of small locks whose requests are on record: what three nodes did, and by which requests.

Some locks delete without comparing, prolong or overwrite what is not theirs, work in the background, or send requests
that arrive when their call has ended. Some requests are missing from the record, and nodes are out of sight at times.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

from tests.judge.histories import History

NODES: Final = ("n1", "n2", "n3")
TTL: Final = 60


class _Request(NamedTuple):
    arrives: float
    sent: float
    client: str
    node: str
    words: str
    is_late: bool


def draw(seed: int) -> History:
    random = Random(seed)
    history = History(require="lease", clients=3, ttl_ms=TTL)
    requests: list[_Request] = []
    for client in ("c1", "c2", "c3"):
        _client(random, history, requests, client)
    events: list[Any] = [(request.arrives, 0, request) for request in requests]
    for node in NODES:
        history.seen(node, "watching", 0, f"{node}-0")
        if random.random() < 0.3:
            at = random.uniform(50, 300)
            events += [(at, 1, node), (at + random.uniform(1, 30), 2, node)]
    _carry_out(random, history, sorted(events, key=lambda event: event[:2]))
    if random.random() < 0.3:
        history.not_recorded.add(random.choice(NODES))
    history.requests = [request for request in history.requests if random.random() > 0.02]
    return history


def _client(random: Random, history: History, requests: list[_Request], client: str) -> None:
    at = random.uniform(1, 30)
    one_value, extend_by, release_by = (
        random.random() < 0.2,
        random.choice(["PEXPIRE", "PEXPIRE", "SET"]),
        random.choice(["EVAL", "EVAL", "DEL"]),
    )

    def ask(words: str, from_: float, to: float) -> None:
        for node in NODES:
            if random.random() < 0.9:
                sent, is_late = random.uniform(from_, to), random.random() < 0.05
                takes = random.uniform(10, 40) if is_late else 0.2
                requests.append(_Request(sent + takes, sent, client, node, words, is_late))

    for number in range(1, random.randint(2, 4)):
        value = f"{client}-v" if one_value else f"{client}-{number}"
        while random.random() < 0.3:
            history.op(client, "acquire", "fail", number, at, at + 5)
            ask(f"SET k1 {value}-tried NX PX {TTL}", at + 1, at + 2)
            ask(f"EVAL s 1 k1 {value}-tried", at + 3, at + 4)
            if random.random() < 0.2:
                ask(f"PEXPIRE k1 {2 * TTL}", at + 2, at + 3)
            at += random.uniform(6, 20)
        asked, at = at, at + 5
        ask(f"SET k1 {value} NX PX {TTL}", asked + 1, at - 2)
        start = at
        extended = []
        while random.random() < 0.4:
            at += random.uniform(5, 30)
            words = f"PEXPIRE k1 {2 * TTL}" if extend_by == "PEXPIRE" else f"SET k1 {value} PX {TTL}"
            ask(words, at + 1, at + 3)
            if random.random() < 0.7:
                extended.append((at, random.choice(["ok", "fail", "info"])))
                at += 5
        at += random.uniform(1, 30)
        history.section(client, start, at, number=number, deadline=start + TTL - 3, asked=asked)
        history.ops[client, 1].pop()  # the extensions come before the release
        for began, outcome in extended:
            lease = {"deadline_ns": None} if outcome != "ok" else {"validity_ms": TTL - 5}
            history.op(client, "extend", outcome, number, began, began + 5, **lease)
        if random.random() < 0.9:
            history.op(client, "release", random.choice(["ok", "ok", "fail"]), number, at, at + 5)
            words = "DEL k1" if release_by == "DEL" else f"EVAL s 1 k1 {value}"
            ask(words, at + 1, at + 4)
        at += random.uniform(6, 40)
    history.end(client, "finished", at + 50)


def _carry_out(random: Random, history: History, events: list[Any]) -> None:
    """In the order in which requests arrived. `held`: by node, the value of the key and when it expires."""
    held: dict[str, tuple[str, float]] = {}
    hidden: set[str] = set()
    for at, kind, what in events:
        if kind == 1:
            history.seen(what, "blind", at)
            hidden.add(what)
            continue
        if kind == 2:
            if what in held:
                history.seen(what, "seen", at, held[what][0], ttl=round(held[what][1] - at), since=at - 1)
            history.seen(what, "watching", at, f"{what}-{random.choice([0, 1])}", since=at - 1)
            hidden.discard(what)
            continue
        node, client, words = what.node, what.client, what.words
        if node in held and held[node][1] <= at:
            if node not in hidden:
                history.seen(node, "expired", held[node][1] + 0.1, since=held[node][1])
            del held[node]
        connection = 100 * int(client[1:]) + 10 * what.is_late * random.randint(1, 9) + int(node[1:])
        more = {"sent": what.sent, "connection": connection, "did": False}
        told = at + 0.2 if random.random() < 0.9 else None
        history.request(client, node, words, at, told, **more)
        event = _do(held, node, words.split(" "), at)
        if event is None or node in hidden:
            continue
        value = event[1] if event[1] is None or random.random() < 0.9 else None
        history.seen(node, event[0], at + 0.15, value, since=at - random.choice([0, 0.05, 3]), ttl=event[2])
        history.by(history.key_events[-1], len(history.requests) - 1)


def _do(held: dict[str, tuple[str, float]], node: str, words: list[str], at: float) -> tuple[Any, ...] | None:
    """What the node notifies of."""
    match words:
        case ["SET", _, _, "NX", *_] if node in held:
            return None
        case ["SET", _, value, *_]:
            held[node] = value, at + TTL
            return "set", value, TTL
        case ["PEXPIRE", _, ttl] if node in held:
            held[node] = held[node][0], at + int(ttl)
            return "prolonged", held[node][0], int(ttl)
        case ["EVAL", *_, value] if node in held and held[node][0] == value:
            del held[node]
            return "deleted", None, None
        case ["DEL", *_] if node in held:
            del held[node]
            return "deleted", None, None
    return None
