"""`python -m tests.world.shrink SEED KIND`: what of a run is needed for this finding, as a literal history.

First the run is played with fewer faults, then parts of what it left are taken away: sections, requests with what they
did, other events, faults. What is left is printed as a test builds it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from harness.checkers.judge import judge
from harness.shrink.ddmin import ddmin
from tests.judge.histories import START_NS, History
from tests.world.fuzz import draw
from tests.world.play import Play, Played, lock_of

Part = tuple[str, Any]


def shows(history: History, kind: str) -> bool:
    try:
        return any(each.kind == kind and each.blame == "lock" for each in judge(history.recorded()).findings)
    except Exception:  # so little was left that it is no history
        return False


def fewer_faults(play: Callable[[], Play], kind: str) -> Played:
    """The run with as few faults as show it."""

    def made(faults: Sequence[Any]) -> Played:
        one = play()
        one.schedule = msgspec.structs.replace(one.schedule, faults=tuple(faults))
        return one.play()

    return made(ddmin(play().schedule.faults, lambda faults: shows(made(faults), kind)))


def parts_of(history: Played) -> list[list[Part]]:
    """What is taken away together, from the largest parts to the smallest."""
    sections = {(life, op.section) for life, ops in history.ops.items() for op in ops}
    return [
        [("section", each) for each in sorted(sections)],
        [("fault", each) for each in dict.fromkeys(fault.fault for fault in history.faults)],
        [("node", each) for each in history.config.node_names],
        [("row", number) for number in range(len(history.rows))],
        [("event", number) for number in range(len(history.key_events))],
        [("write", number) for number in range(len(history.writes))],
        [("op", (life, number)) for life, ops in history.ops.items() for number in range(len(ops))],
    ]


def without(history: Played, gone: set[Part]) -> Played:
    left = Played(seed=1)
    vars(left).update(vars(history), _wire=None)
    left.ops = type(history.ops)(list)
    for life, ops in history.ops.items():
        kept = [op for n, op in enumerate(ops) if not {("section", (life, op.section)), ("op", (life, n))} & gone]
        if kept:
            left.ops[life] = kept
    left.faults = [fault for fault in history.faults if ("fault", fault.fault) not in gone]
    left.rows = [row for number, row in enumerate(history.rows) if not {("row", number), ("node", row["node"])} & gone]
    left.writes = [write for number, write in enumerate(history.writes) if ("write", number) not in gone]
    left.key_events = [
        event
        for number, event in enumerate(history.key_events)
        if not {("event", number), ("node", event.node)} & gone or event.event == "watching"
    ]
    return left


def smaller(history: Played, kind: str) -> Played:
    """What of the history is needed."""
    gone: set[Part] = set()
    for parts in parts_of(history):
        parts = [part for part in parts if part not in gone]
        kept = ddmin(parts, lambda some: shows(without(history, gone | (set(parts) - set(some))), kind))  # noqa: B023
        gone |= set(parts) - set(kept)
    return without(history, gone)


def at(at_ns: int | None) -> str:
    return "None" if at_ns is None else f"{(at_ns - START_NS) / 1e6:.6f}"


def literal(history: Played) -> Iterator[str]:
    """Lines of Python that build it."""
    config = history.config
    yield f"history = History(clients={config.clients}, nodes={config.nodes}, ttl_ms={config.ttl_ms})"
    yield f"history.timeline = {_told(history.timeline)}"
    for (client, life), ops in history.ops.items():
        for op in ops:
            yield f"history.ops[{client!r}, {life}].append({_told(op)})"
    for each in ("faults", "ends", "writes"):
        for one in getattr(history, each):
            yield f"history.{each}.append({_told(one)})"
    for row in history.rows:
        words = " ".join([row["command"], *row["arguments"]])
        sent, arrived, answered, told = (
            at(row.get(name)) for name in ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")
        )
        yield (
            f"history.request({row['client']!r}, {row['node']!r}, {words!r}, {arrived}, {answered}, sent={sent}, "
            f"told={told}, reply={row.get('reply')!r}, connection={row['connection']}, did=False)"
        )
    for event in history.key_events:
        yield f"history.key_events.append({_told(event)})"
        if event.port is not None:
            yield f"history.ports[{event.port - 10_000}] = {event.port}"


def _told(one: msgspec.Struct) -> str:
    """As it is written; times count from the start."""
    fields = []
    for field in msgspec.structs.fields(one):
        name, value = field.name, getattr(one, field.name)
        if field.required or (value not in (None, (), "") and value is not False):
            is_time = name.endswith("_ns") and isinstance(value, int) and value > START_NS // 2
            fields.append(f"{name}=ms({at(value)})" if is_time else f"{name}={value!r}")
    return f"{type(one).__name__}({', '.join(fields)})"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("kind")
    asked = parser.parse_args()
    config = draw(asked.seed).config
    played = fewer_faults(lambda: Play(config, lock_of(config.lock)), asked.kind)
    sys.stdout.writelines(f"{line}\n" for line in literal(smaller(played, asked.kind)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
