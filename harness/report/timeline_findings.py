"""Where findings happened, for the timeline: each example as a time, and the rows of the clients and nodes it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.verdict import Finding

EXAMPLES: Final = 5
"""Of one finding that are shown."""
_LENGTHS: Final = ("for_ms", "overlap_ms")
_NOT_NAMES: Final = ("key", "what", "seen", "cause", "how", "command", "call")


class Mark(NamedTuple):
    """`finding`: its place among the findings. Times in ms since the start of the load; `clients`, `nodes`: rows."""

    finding: int
    from_ms: float
    to_ms: float
    clients: tuple[int, ...]
    nodes: tuple[int, ...]


def moments(findings: Sequence[Finding], clients: Mapping[str, int], nodes: Mapping[str, int]) -> list[Mark]:
    """In the order of the findings and their examples. A finding whose examples tell no time has one moment, when the
    first of all happened; none if that is not known."""
    found = []
    for place, finding in enumerate(findings):
        timed = [each for each in finding.examples[:EXAMPLES] if each.get("at_ms") is not None]
        if not timed and finding.at_ms is not None:
            timed = [{"at_ms": finding.at_ms}]
        for example in timed:
            at_ms = float(example["at_ms"])
            names = list(_names(example))
            length_ms = next((float(example[name]) for name in _LENGTHS if example.get(name) is not None), 0.0)
            found.append(Mark(place, at_ms, at_ms + max(length_ms, 0.0), _rows(names, clients), _rows(names, nodes)))
    return found


def _rows(names: Sequence[str], rows: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sorted({rows[name] for name in names if name in rows}))


def _names(value: Any) -> Iterator[str]:
    """The first words of all texts of an example that may name a client or a node: `n1 overwritten` is about n1."""
    if isinstance(value, str):
        yield value.partition(" ")[0]
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _NOT_NAMES:
                yield from _names(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names(inner)
