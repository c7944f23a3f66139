"""What a space-time diagram shows of an example: the key, the time span, the nodes and the clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fencepost.history import process_of
from harness.explain.examples import Side, ops_of
from harness.explain.explanation import Explanation
from harness.history.recorded import Recorded

_MOST_SIDES: Final = 3
_NAMES: Final = ("client", "of", "by")
"""The fields that name clients in examples that are about no sections, in the order of the lanes."""
_AROUND_NS: Final = 5_000_000
"""How much is shown before and after a moment of which only the time is known."""


@dataclass(frozen=True, slots=True)
class Scene:
    """`clients`: those whose requests are shown, as `lane` names them; none if the example names none. `nodes`: only
    these; all if there are none. Requests and keys are shown from `from_ns` until `until_ns`, sections until `to_ns`.
    `moment_ns`: what is near it says most, and what is near `over_ns`, when the outage that the example is about was
    over. `asked`: when the sections were asked for, up to the entry. `overlap`: from when to when two clients were
    inside that should not have been."""

    key: str
    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    from_ns: int
    until_ns: int
    to_ns: int
    moment_ns: int
    over_ns: int
    asked: tuple[tuple[str, int, int], ...] = ()
    overlap: tuple[int, int] | None = None


def lane(run: Recorded, client: str) -> str:
    """Who sent what this client asked for, as far as the record tells: the task, or its process."""
    tells_tasks = run.ledger is not None and run.ledger.wire.notes_tasks
    return client if tells_tasks else process_of(client)


def scene_of(run: Recorded, explanation: Explanation) -> Scene | None:
    """None if the example names no key and no time."""
    sides = (explanation.pair or explanation.sides)[:_MOST_SIDES]
    example = explanation.case.example
    if len(sides) > 1:
        return _of_several(run, sides)
    return _of_one(run, sides[0], example) if sides else _of_a_moment(run, example)


def _of_several(run: Recorded, sides: tuple[Side, ...]) -> Scene:
    """Until the last of them entered; what follows is no cause of that."""
    entered_ns, left_ns = max(side.start_ns for side in sides), min(side.end_ns for side in sides)
    return Scene(
        key=sides[0].key,
        clients=_lanes(run, (side.client for side in sides)),
        nodes=(),
        from_ns=min(side.asked_from_ns for side in sides),
        until_ns=entered_ns,
        to_ns=max(entered_ns, left_ns),
        moment_ns=entered_ns,
        over_ns=entered_ns,
        asked=_asked(run, sides),
        overlap=(entered_ns, left_ns) if entered_ns <= left_ns else None,
    )


def _of_one(run: Recorded, side: Side, example: Mapping[str, Any]) -> Scene:
    """Until shortly after the moment that the example names, or until what began then was over where it says how long
    that took; until the release had returned where it names none."""
    moment_ns = _moment(run, example)
    if moment_ns is None:
        ops = ops_of(run, side.client, side.section)
        until_ns = max([side.end_ns, *ops["complete_ns"][(ops["f"] == "release").to_numpy(np.bool_)].tolist()])
    else:
        until_ns = max(side.start_ns, moment_ns) + max(_length(example), _AROUND_NS)
    return Scene(
        key=side.key,
        clients=_lanes(run, [side.client, *_named(example)]),
        nodes=(),
        from_ns=side.asked_from_ns,
        until_ns=until_ns,
        to_ns=max(until_ns, side.end_ns),
        moment_ns=moment_ns or side.start_ns,
        over_ns=(moment_ns or side.start_ns) + _length(example),
        asked=_asked(run, (side,)),
    )


def _of_a_moment(run: Recorded, example: Mapping[str, Any]) -> Scene | None:
    key, moment_ns = example.get("key"), _moment(run, example)
    if not isinstance(key, str) or moment_ns is None:
        return None
    nodes = tuple(name for name in (example.get("node"),) if name in run.config.node_names)
    until_ns = moment_ns + max(_length(example), _AROUND_NS)
    return Scene(
        key=key,
        clients=_lanes(run, _named(example)),
        nodes=nodes,
        from_ns=min(_set_before(run, key, nodes, moment_ns, default=moment_ns - _AROUND_NS), moment_ns - _AROUND_NS),
        until_ns=until_ns,
        to_ns=until_ns,
        moment_ns=moment_ns,
        over_ns=moment_ns + _length(example),
    )


def _set_before(run: Recorded, key: str, nodes: tuple[str, ...], moment_ns: int, default: int) -> int:
    """When the key that these nodes held then was set."""
    if run.owners is None or not nodes:
        return default
    holdings = run.owners.holdings
    here = (holdings["lock_key"] == key) & holdings["node"].isin(nodes)
    here &= (holdings["from_min_ns"] < moment_ns) & (holdings["to_max_ns"] >= moment_ns)
    return min(holdings["from_min_ns"][here.to_numpy(np.bool_)].tolist(), default=default)


def _moment(run: Recorded, example: Mapping[str, Any]) -> int | None:
    at_ms = example.get("at_ms")
    return run.at_ns(at_ms) if isinstance(at_ms, int | float) else None


def _length(example: Mapping[str, Any]) -> int:
    length_ms = example.get("for_ms")
    return round(length_ms * 1e6) if isinstance(length_ms, int | float) else 0


def _named(example: Mapping[str, Any]) -> Iterator[str]:
    return (name for field in _NAMES if isinstance(name := example.get(field), str))


def _asked(run: Recorded, sides: tuple[Side, ...]) -> tuple[tuple[str, int, int], ...]:
    return tuple((lane(run, side.client), side.asked_from_ns, side.start_ns) for side in sides)


def _lanes(run: Recorded, clients: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lane(run, client) for client in clients))
