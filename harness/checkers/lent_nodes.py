"""What cannot be seen of nodes that are servers of the user's own (`--nodes-at`), so that it is not guessed.

Their keys, clocks and disks are not on record. What such a server did while it failed is not known either: it may have
come back without its keys. So nothing is blamed on the lock in a run in which one failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fencepost.text import listed
from harness.figures import CheckerFigures, Part, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding


class Figures(CheckerFigures, frozen=True):
    """`failed`: the nodes that failed while the run was on."""

    failed: tuple[str, ...] = ()

    def rows(self) -> Iterator[Row]:
        """`not seen, because the servers are yours: keys on nodes, clocks, disks`."""
        yield Row("limits", self._in_words(), order=12, is_input=True)

    def parts(self) -> Iterator[Part]:
        text = self._in_words()
        yield Part("What the faults hit", order=41, sentences=(f"{text[0].upper()}{text[1:]}.",))

    def _in_words(self) -> str:
        text = "not seen, because the servers are yours: keys on nodes, clocks, disks; not injected: faults of nodes"
        if not self.failed:
            return text
        return f"{text}; {listed(self.failed)} failed, and may have lost keys: nothing is blamed on the lock"


def check(run: Recorded) -> Answer:
    """No figures where the nodes are the run's own."""
    return Answer() if run.config.nodes_at is None else Answer(Figures(failed_nodes(run)))


def failed_nodes(run: Recorded) -> tuple[str, ...]:
    """The user's own servers that did not answer as before while the run was on."""
    if run.config.nodes_at is None:
        return ()
    return tuple(sorted({node for event in run.faults if event.unplanned for node in event.nodes}))


def without_blame(findings: Sequence[Finding], run: Recorded) -> tuple[Finding, ...]:
    """The findings, of which none blames the lock if a server of the user's own failed."""
    if not failed_nodes(run):
        return tuple(findings)
    return tuple(replace(each, blame="undecided") if each.blame == "lock" else each for each in findings)
