"""Which client asked which node what, for the timeline when it is zoomed in: the requests nearest to what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.history.groups import Bools, Ints

MOST_REQUESTS: Final = 6_000
"""A request takes some 25 bytes of the page."""


def timeline_requests(
    requests: WireRequests,
    start_ns: int,
    end_us: int,
    clients: Sequence[str],
    nodes: Sequence[str],
    near: Sequence[int],
) -> dict[str, Any] | None:
    """In columns, in the order in which they were sent; None if there are none. `near`: moments; of more than
    `MOST_REQUESTS` those sent nearest to one of them are kept. All times in µs since `start_ns`. `clients`: the names
    of the rows, which are tasks or processes."""
    places, sent_ns = requests.by_time()
    sent = (sent_ns - start_ns) // 1_000
    within = (sent >= 0) & (sent <= end_us)
    places, sent = places[within], sent[within]
    if not len(places):
        return None
    kept = _nearest(sent, near or (0,))
    found = requests.in_rows(places[kept])
    who, words, replies = _Numbers(), _Numbers(), _Numbers()
    node_rows = {name: row for row, name in enumerate(nodes)}

    def us(one: WireRequest, at_ns: int | None) -> int:
        """Since the request was sent; -1 if that moment never came."""
        return -1 if at_ns is None else (at_ns - start_ns) // 1_000 - (one.sent_ns - start_ns) // 1_000

    columns = {
        "client": [who.of(one.client) for one in found],
        "node": [node_rows[one.node] for one in found],
        "word": [words.of(printable(one.label)) for one in found],
        "reply": [replies.of(printable(one.reply_label)) for one in found],
        "step": np.diff(sent[kept], prepend=0).tolist(),
        "reached": [us(one, one.to_node_ns) for one in found],
        "left": [us(one, one.from_node_ns) for one in found],
        "came": [us(one, one.to_client_ns) for one in found],
    }
    rows = [[row for row, name in enumerate(clients) if process_of(name) == process] for process in who.names]
    return columns | {
        "who": [printable(name) for name in who.names],
        "rows": rows,
        "words": words.names,
        "replies": replies.names,
        "total": len(sent),
        "kept": _stretches(sent, kept, end_us),
    }


class _Numbers:
    """Texts that are stored once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self._known.setdefault(text, len(self._known))

    @property
    def names(self) -> list[str]:
        return list(self._known)


def _nearest(sent: Ints, near: Iterable[int]) -> Bools:
    """Which of them to keep."""
    kept = np.ones(len(sent), np.bool_)
    if len(sent) > MOST_REQUESTS:
        far = np.full(len(sent), np.iinfo(np.int64).max)
        for moment in near:
            far = np.minimum(far, np.abs(sent - moment))
        kept[np.argsort(far, kind="stable")[MOST_REQUESTS:]] = False
    return kept


def _stretches(sent: Ints, kept: Bools, end_us: int) -> list[tuple[int, int]]:
    """The stretches of time in which requests were sent and none was left out."""
    edges = np.diff(kept.astype(np.int8), prepend=0, append=0)
    first, after = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
    return [
        (int(sent[a - 1]) + 1 if a else 0, int(sent[b]) - 1 if b < len(sent) else end_us)
        for a, b in zip(first, after, strict=True)
    ]


def moments_of(data: Mapping[str, Any]) -> list[int]:
    """What the requests are kept around: the moments of the findings; the faults' beginnings and ends if there are
    none."""
    found = [(moment[1], moment[2]) for moment in data.get("moments", ())]
    ends = found or [(fault["from"], fault["to"]) for fault in data["faults"]]
    return sorted({at for each in ends for at in each})
