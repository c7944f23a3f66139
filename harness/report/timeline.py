"""The timeline's data: sections, overlaps and faults as columns of small integers, for the canvas on the page.

A hundred thousand sections must stay a few megabytes and load at once, so there is one array a column instead of one
object a row, times are µs since the start, and starts are stored as differences. Names are stored once and referred
to by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fencepost.history import Hit
from fencepost.text import printable
from harness.history.capacity import pairs_beyond
from harness.history.fault_windows import Window
from harness.history.recorded import Recorded
from harness.report.charts import span_ns
from harness.report.timeline_findings import moments
from harness.verdict import Finding

MOST_OVERLAPS: Final = 20_000
"""A lock that excludes no client makes every section overlap many; a picture needs no more pairs than this."""

FOREVER_US: Final = 10**13
"""Validities are cut off here: a lock that reported none has an infinite one, which JavaScript cannot represent."""

MOST_HELD: Final = 20_000
"""Of more times that a node held a key, the ones around the findings' moments are drawn."""
_AROUND_US: Final = 2_000_000


def timeline(
    run: Recorded,
    faults: Sequence[Window],
    findings: Sequence[tuple[Finding, str]] = (),
    holdings: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """JSON values for `timeline.js`; every time in µs since the start of the load. `findings`: in the order to walk
    through them, each with who is to blame in words. `holdings`: what the nodes held (`harness.history.key_owners`)."""
    start_ns, end_ns = span_ns(run)
    sections = run.sections.sort_values("start_ns", kind="stable") if len(run.sections) else run.sections
    clients = _names(run.config.user_names, [] if sections.empty else sections["client"].unique().tolist())
    nodes = run.config.node_names
    client_rows = {name: i for i, name in enumerate(clients)}
    node_rows = {name: i for i, name in enumerate(nodes)}

    def us(at_ns: int) -> int:
        return (at_ns - start_ns) // 1_000

    marks = [
        (label, us(at_ns))
        for label, at_ns in (
            ("all healed", run.timeline.healed_ns),
            ("asked to end", run.timeline.stop_ns),
        )
        if at_ns is not None
    ]
    data: dict[str, Any] = {
        "end": us(end_ns),
        "interrupted": run.timeline.interrupted,
        "clients": [printable(c) for c in clients],
        "nodes": list(nodes),
        "marks": marks,
        "faults": [_fault(w, us, us(end_ns), client_rows, node_rows) for w in faults],
        "sections": None,
        "overlaps": [],
    }
    if not sections.empty:
        keys = sorted(sections["key"].unique().tolist())
        key_numbers = {key: i for i, key in enumerate(keys)}
        starts = _us(sections["start_ns"], start_ns)
        valid = _us(sections["deadline_min_ns"], start_ns) - starts
        data["keys"] = [printable(k) for k in keys]
        data["sections"] = {
            "client": sections["client"].map(client_rows).tolist(),
            "key": sections["key"].map(key_numbers).tolist(),
            "number": sections["section"].tolist(),
            "step": np.diff(starts, prepend=0).tolist(),
            "length": (_us(sections["end_ns"], start_ns) - starts).tolist(),
            "wait": (starts - _us(sections["asked_ns"], start_ns)).tolist(),
            "valid": np.minimum(valid, FOREVER_US).tolist(),
            "slack": np.minimum(_us(sections["deadline_max_ns"], start_ns) - starts - valid, FOREVER_US).tolist(),
            "ended": [("release", "killed", "open").index(e) for e in sections["ended"]],
            "token": [None if pd.isna(t) else int(t) for t in sections["token"].astype(object)],
        }
        data["overlaps"] = _overlaps(sections, start_ns, run.permits)
    if findings:
        offset_us = us(run.timeline.start_ns)
        found = moments([finding for finding, _ in findings], client_rows, node_rows)
        data["findings"] = [{"text": printable(f.text), "who": who, "blame": f.blame} for f, who in findings]
        data["moments"] = [
            (m.finding, offset_us + int(m.from_ms * 1e3), offset_us + int(m.to_ms * 1e3), m.clients, m.nodes)
            for m in found
        ]
    if holdings is not None and not sections.empty:
        around = [(offset_us + m.from_ms * 1e3, offset_us + m.to_ms * 1e3) for m in found] if findings else []
        data["held"] = _held(holdings, us(end_ns), start_ns, client_rows, node_rows, key_numbers, around)
    return data


def _held(
    holdings: pd.DataFrame,
    end_us: int,
    start_ns: int,
    clients: Mapping[str, int],
    nodes: Mapping[str, int],
    keys: Mapping[str, int],
    around: Sequence[tuple[float, float]],
) -> dict[str, list[int]] | None:
    """What each node held, and whose it was, by start: from when it was certainly set until it was certainly gone, or
    was last seen. None if no node held one of the sections' keys."""
    known = holdings["node"].isin(list(nodes)) & holdings["lock_key"].isin(list(keys))
    held = holdings[known.to_numpy(bool)].sort_values("from_max_ns", kind="stable")
    until = np.where((held["ended"] == "lost").to_numpy(bool), held["to_min_ns"], held["to_max_ns"])
    begin, end = _us(held["from_max_ns"], start_ns), np.minimum(_us(until, start_ns), end_us)
    wanted = begin <= end_us
    if np.count_nonzero(wanted) > MOST_HELD:
        near = np.zeros(len(begin), bool)
        for from_us, to_us in around:
            near |= (end >= from_us - _AROUND_US) & (begin <= to_us + _AROUND_US)
        wanted &= near
    held, begin, end = held[wanted][:MOST_HELD], begin[wanted][:MOST_HELD], end[wanted][:MOST_HELD]
    if held.empty:
        return None
    return {
        "node": [nodes[name] for name in held["node"]],
        "key": [keys[name] for name in held["lock_key"]],
        "client": [clients.get(name, -1) if isinstance(name, str) else -1 for name in held["client"]],
        "step": np.diff(begin, prepend=0).tolist(),
        "length": np.maximum(end - begin, 0).tolist(),
    }


def _overlaps(sections: pd.DataFrame, start_ns: int, permits: int) -> list[tuple[int, ...]]:
    """Pairs of rows that should not have been inside together, from when to when both were, and the blame by its place
    in `BLAMES`."""
    pairs = pairs_beyond(sections, permits, MOST_OVERLAPS)
    begin, end = _us(sections["start_ns"], start_ns), _us(sections["end_ns"], start_ns)
    until = np.minimum(end[pairs.earlier], end[pairs.later])
    return list(
        zip(*(c.tolist() for c in (pairs.earlier, pairs.later, begin[pairs.later], until, pairs.blame)), strict=True)
    )


def _fault(
    window: Window, us: Callable[[int], int], end_us: int, clients: Mapping[str, int], nodes: Mapping[str, int]
) -> dict[str, object]:
    event = window.event

    def rows(hit: Hit) -> list[int] | list[tuple[int, int]]:
        """Names as numbers of rows, links as pairs of them; -1 is the resource, which has no row."""
        if hit.links:
            return [(clients[c], nodes.get(n, -1)) for c, n in hit.links if c in clients]
        if hit.members:
            return sorted({nodes[name] for _, name in hit.members if name in nodes})
        of = clients if hit.effect.of == "client" else nodes
        return [of[name] for name in hit.names if name in of]

    return {
        "what": printable(event.what),
        "nemesis": printable(event.nemesis),
        "seen": printable(event.seen),
        "from": us(window.from_ns),
        "to": end_us if window.to_ns is None else us(window.to_ns),
        "healed": window.to_ns is not None,
        "took": window.took,
        "unplanned": event.unplanned,
        "hits": [
            {"of": "node" if hit.members else hit.effect.of, "look": hit.effect.look, "rows": rows(hit)}
            for hit in event.hits()
        ],
    }


def _us(column: object, start_ns: int) -> npt.NDArray[np.int64]:
    return (np.asarray(column, dtype=np.int64) - start_ns) // 1_000


def _names(planned: Sequence[str], seen: Sequence[str]) -> list[str]:
    """The planned clients in order, then any other clients in the history."""
    return [*planned, *sorted(set(seen) - set(planned))]
