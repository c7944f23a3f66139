"""What the figures of a run show beside its findings, in sentences: keys without an owner, slow acquires, the longest
time without a grant, and why a verdict is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.text import listed, milliseconds, printable
from harness.checkers import acquire_timeouts, liveness, orphans
from harness.checkers.starvation import least_gap_ms
from harness.explain.words import out_of_order
from harness.history.recorded import Recorded
from harness.verdict import Verdict


def remarks(run: Recorded, verdict: Verdict) -> Iterator[str]:
    """A sentence or two for each."""
    if verdict.verdict == "unknown":
        yield from (f"The verdict is unknown: {printable(reason).rstrip('.')}." for reason in verdict.unknown)
    yield from _orphans(verdict.of(orphans.Figures))
    yield from _overruns(verdict.of(acquire_timeouts.Figures))
    yield from _gap(run, verdict.of(liveness.Figures))


_LEFT: Final[dict[orphans.Cause, str]] = {
    "not released": "still there after the release",
    "given up": "left by attempts that were refused or given up",
    "client gone": "left by clients that were killed",
    "set too late": "set when no longer needed",
    "back from disk": "back from a node's disk when no longer owned",
}


def _orphans(figures: orphans.Figures | None) -> Iterator[str]:
    if figures is None or not figures.count or figures.by_cause is None or figures.by_node is None:
        return
    keys = "1 key" if figures.count == 1 else f"{figures.count:,} keys"
    nodes = listed([printable(name) for name, node in figures.by_node.items() if node.count])
    causes = listed([f"{number:,} {_LEFT[cause]}" for cause, number in figures.by_cause.items() if number])
    yield (
        f"{keys} on {nodes} had no owner and kept other clients out, for up to {milliseconds(figures.longest_ms)} "
        f"until deleted or expired: {causes}."
    )


def _overruns(figures: acquire_timeouts.Figures | None) -> Iterator[str]:
    if figures is None or not figures.overruns or figures.declared:
        return  # what the lock declares is a finding
    calls = "1 acquire call" if figures.overruns == 1 else f"{figures.overruns:,} acquire calls"
    yield (
        f"{calls} took longer than a lease lasts ({milliseconds(figures.limit_ms)}), up to "
        f"{milliseconds(figures.longest_ms)}; the lock does not say how long it may take."
    )


def _gap(run: Recorded, figures: liveness.Figures | None) -> Iterator[str]:
    if figures is None or figures.longest_gap_ms is None or figures.longest_gap_at_ms is None:
        return
    if figures.longest_gap_ms < least_gap_ms(run):
        return
    since_ns = run.at_ns(figures.longest_gap_at_ms)
    around = out_of_order(run, since_ns, since_ns + round(figures.longest_gap_ms * 1e6))
    yield (
        f"The longest time without a grant, although a client could reach a majority of the nodes, was "
        f"{milliseconds(figures.longest_gap_ms)}, from {figures.longest_gap_at_ms:+,.1f} ms on: "
        f"{around or 'no fault was in force'}."
    )
