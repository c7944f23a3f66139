"""Sections that a client left without a release: it acquired again, as a program does that knows its lease is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.history.groups import rows_of

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


def forgotten_sections(run: Recorded) -> frozenset[int]:
    """Their places. What a lock keeps of them, or goes on renewing, is their clients' doing."""
    acquires = run.ops[(run.ops["f"] == "acquire").to_numpy(bool)]
    last = acquires.groupby(["client", "life"], observed=True)["invoke_ns"].max().to_dict()
    own = enumerate(rows_of(run.sections, "client", "life", "start_ns", "ended"))
    return frozenset(place for place, (*of, since_ns, ended) in own if ended == "open" and last[tuple(of)] > since_ns)
