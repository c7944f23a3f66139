"""The values that one node held of one key, in the node's order, and how long each one lived."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of

CLOCK_SLACK_NS: Final = 20_000_000
"""A node that expires a key this long before its time did not do what the lock asked: its clock ran fast or stepped.
Where a fault is known to have set the clock, any expiry may be the clock's."""


class Own(NamedTuple):
    """What a node held for a section; the columns of `Owners.holdings`."""

    from_min_ns: int
    from_max_ns: int
    to_max_ns: int
    ended: str
    expires_ns: int
    renewals: tuple[int, ...]

    @property
    def expired_early(self) -> bool:
        """Whether it was gone before its time. What was gone before its TTL could be read had been given next to none;
        by the lock, for clocks do not step just then."""
        last_set_ns = self.renewals[-1] if self.renewals else self.from_max_ns
        if self.expires_ns >= FOREVER_NS and self.to_max_ns <= last_set_ns + CLOCK_SLACK_NS:
            return False
        return self.to_max_ns < self.expires_ns - CLOCK_SLACK_NS


@dataclass(frozen=True, slots=True)
class NodeLine:
    """What one node held of one key, as lists in the node's order, with the value of each holding."""

    every: list[Own]
    of_section: dict[int, list[int]]
    """The places of the values that were set for each section."""
    unread: list[Own]
    """Those whose value was gone before it could be read."""
    client: list[str | None]
    """The process that set each of them; None if that, or the value, is not known."""
    from_min: list[int]
    from_max: list[int]
    to_max: list[int]
    expires_max: list[int]
    renewals: list[tuple[int, ...]]
    before_renewals: list[tuple[tuple[int, int], ...]]
    ttls_ms: list[tuple[int | None, ...]]
    reach: list[int]
    """The largest `to_max` up to here."""
    has_expired: list[bool]
    """Whether that is how it ended."""

    @classmethod
    def of(cls, rows: pd.DataFrame) -> NodeLine:
        """From the rows of `Owners.holdings` of one lock key on one node. If it is several keys there, a holding of one
        that was found by looking may have begun before one of another that was noticed first."""
        rows = rows.sort_values("from_min_ns", kind="stable")
        of_section: dict[int, list[int]] = {}
        for place, section in enumerate(rows["section"].tolist()):
            of_section.setdefault(section, []).append(place)
        every, values = list(map(Own._make, rows_of(rows, *Own._fields))), rows["value"].tolist()
        to_max = rows["to_max_ns"].to_numpy(np.int64)
        return cls(
            every,
            of_section,
            [one for one, value in zip(every, values, strict=True) if value is None],
            [None if value is None else client for client, value in zip(rows["client"].tolist(), values, strict=True)],
            rows["from_min_ns"].tolist(),
            rows["from_max_ns"].tolist(),
            to_max.tolist(),
            rows["expires_max_ns"].tolist(),
            rows["renewals"].tolist(),
            rows["before_renewals"].tolist(),
            rows["ttls_ms"].tolist(),
            np.maximum.accumulate(to_max).tolist(),
            (rows["ended"] == "expired").tolist(),
        )

    def perhaps(self, client: str, start: int, until: int) -> list[int]:
        """The places, touching this time, that this process set, or of which it is not known who did. Which of its
        tasks and calls did is not asked: a request may leave its client late, and what a client finds of its own it may
        hold once more."""
        return [
            place
            for place in range(bisect_left(self.reach, start), bisect_right(self.from_min, until))
            if self.client[place] in (None, client)
        ]

    def own(self, section: int, client: str, start: int, until: int) -> list[Own]:
        """The holdings that were set for the section, and those of its process that another call had set, and that may
        have been set anew in this time, or given more."""
        again = {
            place
            for place in self.perhaps(client, start, until)
            if self.client[place] is not None and self.may_be_set_anew(place, start, until)
        }
        return [self.every[place] for place in sorted(again.union(self.of_section.get(section, ())))]

    def lives_until(self, place: int, by_ns: int) -> int:
        """By when this holding has certainly expired, as far as what happened by `by_ns` decides it; forever if that is
        not known. Where it is not known whether a renewal was before that, the longer life counts."""
        if self.client[place] is None:
            return FOREVER_NS
        expiries = [expires_ns for _, expires_ns in self.before_renewals[place]] + [self.expires_max[place]]
        surely = bisect_right(self.renewals[place], by_ns)
        # Some locks release by a shorter time to live. What was read after `by_ns`, and when the key expired if its
        # time to live may have been set after that, may be what a release had left of it.
        were_read_later = [
            ttl_ms is not None and by_ns < expires_ns - (ttl_ms + 1) * 1_000_000 and expires_ns < FOREVER_NS
            for ttl_ms, expires_ns in zip(self.ttls_ms[place], expiries, strict=True)
        ]
        expiries = [FOREVER_NS if later else at for later, at in zip(were_read_later, expiries, strict=True)]
        has_run_out = self.has_expired[place] and surely == len(self.renewals[place]) and not were_read_later[-1]
        seen_ns = self.to_max[place] if has_run_out else FOREVER_NS
        perhaps = sum(since_ns <= by_ns for since_ns, _ in self.before_renewals[place])
        return min(seen_ns, max(expiries[surely : perhaps + 1]))

    def gone_by(self, place: int) -> int:
        """By when the node certainly no longer held it. A node may report that a key has expired only when it is asked
        for the key, and to clients the key is gone long before."""
        if not self.has_expired[place]:
            return self.to_max[place]
        return min(self.to_max[place], max(self.expires_max[place] + CLOCK_SLACK_NS, self.from_max[place]))

    def may_be_set_anew(self, place: int, from_ns: int, by_ns: int) -> bool:
        """Whether this holding may have been set, or its time to live, between the two."""
        since = [self.from_min[place], *(since_ns for since_ns, _ in self.before_renewals[place])]
        until = [self.from_max[place], *self.renewals[place]]
        return any(a <= by_ns and b >= from_ns for a, b in zip(since, until, strict=True))
