"""`LoadPhase`: how clients use the lock for a while. A run has one load, or several that follow each other.

The times at which a lock is free, the share of a lease that a section takes, and who competes decide which mistakes of
a lock can show: one that is never free hides what a late release does, and one that is never extended hides extensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workloads.hold import Hold

NO_TIME = Hold("fixed", 0, 0)


class LoadPhase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`from_ms`: when it begins, since the start of the run. `clients`: the processes that work while the others
    rest; empty: all work. `keys`: how many they compete for. `hold`, `think`: how long a client stays inside, and rests
    before its next section. `extensions`: how many times at most it extends its lease in one section, each time when
    the share `extend_at` of it is gone (more than 1: when it is over)."""

    hold: Hold
    think: Hold = NO_TIME
    from_ms: float = 0
    clients: tuple[str, ...] = ()
    keys: int = 1
    extensions: int = 0
    extend_at: float = 0.5

    def works(self, client: str) -> bool:
        """Whether this client process works."""
        return not self.clients or client in self.clients


def load_at(loads: Sequence[LoadPhase], elapsed_ms: float) -> LoadPhase:
    """The load so long after the start: the last one that has begun. `loads`: in order of time, the first from 0."""
    return next(load for load in reversed(loads) if load.from_ms <= elapsed_ms or load is loads[0])
