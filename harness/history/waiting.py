"""What a client said and heard while it waited inside a call, and when the key that it waited for was free.

A client that waits is woken up, or looks again by itself, at the latest when the last lease that it saw has run out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.history.fault_windows import between
from harness.history.free_times import free_times, names_of
from harness.history.key_changes import ENDINGS
from harness.history.link_activity import Activity
from harness.history.standing_still import ran_ns
from harness.history.waits import Wait, all_waits, in_the_way

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

SECOND_NS: Final = 1_000_000_000
SLACK_MS: Final = 250
"""What is under way has this time to arrive."""
SLACK_NS: Final = SLACK_MS * 1_000_000
Span = tuple[int, int]


def patience_ns(run: Recorded) -> int:
    """How long a client may wait beside a free lock without looking again: a lease, rounded up to whole seconds, in
    which locks count that block on a server, and one second more."""
    lease_ns = round(run.lease_ms * 1e6)
    return -(-lease_ns // SECOND_NS) * SECOND_NS + SECOND_NS


def short_ns(run: Recorded) -> int:
    """A client that waits for a message, and is silent for so long, does not poll."""
    return max(round(run.lease_ms * 1e6) // 2, SECOND_NS // 2)


def silences(
    run: Recorded, call: Wait, client: Activity, within: Span, least_ns: int, after: Sequence[str] | None = None
) -> Iterator[Span]:
    """The times within a call in which its client said nothing and heard nothing for that long, although it ran and had
    nothing on its way. `after`: what it must have sent last, if that matters."""
    moments = client.moments_ns
    inner = moments[(moments > within[0]) & (moments < within[1])]
    edges = np.concatenate([[within[0]], inner, [within[1]]])
    for place in np.flatnonzero(np.diff(edges) >= least_ns).tolist():
        began, done = int(edges[place]), int(edges[place + 1])
        if after is not None and client.last_sent(within[0], began) not in after:
            continue
        if ran_ns(run, call.client, began, done) >= least_ns and not client.is_stuck(call.since_ns, began):
            yield began, done


@dataclass(frozen=True, slots=True)
class Waiting:
    """A client that waited for a key, and was or was not let in. `names`: what the key is called on the nodes."""

    run: Recorded
    ledger: Ledger
    wait: Wait
    names: set[str]

    @property
    def client(self) -> Activity:
        return self.ledger.links.of(self.wait.client)

    @property
    def span(self) -> Span:
        return self.wait.since_ns, self.wait.until_ns

    def silences(self, least_ns: int, after: Sequence[str] | None = None) -> Iterator[Span]:
        return silences(self.run, self.wait, self.client, self.span, least_ns, after)

    def ran_ns(self, since_ns: int, until_ns: int) -> int:
        return ran_ns(self.run, self.wait.client, since_ns, until_ns)

    def free_times(self, since_ns: int, until_ns: int) -> list[Span]:
        return free_times(self.run, self.names, self.wait.key, since_ns, until_ns)

    def calm_times(self, others: Sequence[Waiting]) -> list[Span]:
        """When the key was free during the wait, and nothing was in the way."""
        way = in_the_way(self.run, self.wait, [other.wait for other in others])
        return [stretch for free in self.free_times(*self.span) for stretch in between(way, *free)]

    def last_freed(self, by_ns: int) -> Change | None:
        """The last change by then that took the key from a node."""
        rows = self.ledger.rows
        ends = rows["what"].isin(list(ENDINGS)) & rows["key"].isin(list(self.names)) & (rows["since_ns"] <= by_ns)
        places = np.flatnonzero(ends.to_numpy(bool))
        if not len(places):
            return None
        return self.ledger.change(int(places[rows["at_ns"].to_numpy(np.int64)[places].argmax()]))

    def was_freed_by(self, what: str, at_ns: int) -> bool:
        """Whether the key came free by an end of this kind."""
        freed = self.last_freed(at_ns)
        return freed is not None and freed["what"] == what


def waiting_clients(run: Recorded, ledger: Ledger) -> list[Waiting]:
    """The waits in which a client may have slept on (`short_ns`)."""
    waits = list(all_waits(run, ledger.links, short_ns(run)))
    names = {key: names_of(run, ledger, key) for key in dict.fromkeys(wait.key for wait in waits)}
    return [Waiting(run, ledger, wait, names[wait.key]) for wait in waits]
