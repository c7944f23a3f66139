"""What one node held of one key, value after value, each with its owner: a row of
`harness.history.key_owners.Owners.holdings`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import pandas as pd

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import grouped, rows_of

CLOCK_SLACK_NS: Final = 20_000_000
"""A node that expires a key this long before its time did not do what the lock asked: its clock ran fast or stepped.
Where a fault is known to have set the clock, any expiry may be the clock's."""


class HeldKey(NamedTuple):
    """The columns are explained in `harness.history.key_holdings` and `harness.history.key_owners`."""

    node: str
    key: str
    value: str | None
    from_min_ns: int
    from_max_ns: int
    to_min_ns: int
    to_max_ns: int
    began: str
    ended: str
    expires_ns: int
    expires_max_ns: int
    renewals: tuple[int, ...]
    before_renewals: tuple[tuple[int, int], ...]
    ttls_ms: tuple[int | None, ...]
    run: int
    event: int
    renewed_by: tuple[int, ...]
    lock_key: str
    section: int
    client: str | None
    task: str | None
    call: int
    is_background: bool
    done_ns: int
    is_gone: bool
    renewals_sent: tuple[int, ...]
    taken_over_ns: int
    let_go_ns: int

    @property
    def setter(self) -> str | None:
        """The process that set it; None if that, or the value, is not known."""
        return None if self.value is None else self.client

    @property
    def until_ns(self) -> int:
        """Until when it was certainly there for as long as it had been meant to be."""
        return min(self.to_min_ns, self.expires_ns, self.let_go_ns)

    @property
    def expired_early(self) -> bool:
        """Whether it was gone before its time. What was gone before its TTL could be read had been given next to none;
        by the lock, for clocks do not step just then."""
        last_set_ns = self.renewals[-1] if self.renewals else self.from_max_ns
        if self.expires_ns >= FOREVER_NS and self.to_max_ns <= last_set_ns + CLOCK_SLACK_NS:
            return False
        return self.to_max_ns < self.expires_ns - CLOCK_SLACK_NS

    @property
    def gone_by_ns(self) -> int:
        """By when the node certainly no longer held it. A node may report that a key has expired only when it is asked
        for the key, and to clients the key is gone long before."""
        if self.ended != "expired":
            return self.to_max_ns
        return min(self.to_max_ns, max(self.expires_max_ns + CLOCK_SLACK_NS, self.from_max_ns))

    def lives_until(self, by_ns: int) -> int:
        """By when it has certainly expired, as far as what happened by `by_ns` decides it; forever if that is not
        known. Where it is not known whether a renewal was before that, the longer life counts."""
        if self.setter is None:
            return FOREVER_NS
        expiries = [*(expires_ns for _, expires_ns in self.before_renewals), self.expires_max_ns]
        surely = bisect_right(self.renewals, by_ns)
        # Some locks release by a shorter time to live. What was read after `by_ns`, and when the key expired if its
        # time to live may have been set after that, may be what a release had left of it.
        were_read_later = [
            ttl_ms is not None and by_ns < expires_ns - (ttl_ms + 1) * 1_000_000 and expires_ns < FOREVER_NS
            for ttl_ms, expires_ns in zip(self.ttls_ms, expiries, strict=True)
        ]
        expiries = [FOREVER_NS if later else at for later, at in zip(were_read_later, expiries, strict=True)]
        has_run_out = self.ended == "expired" and surely == len(self.renewals) and not were_read_later[-1]
        seen_ns = self.to_max_ns if has_run_out else FOREVER_NS
        perhaps = sum(since_ns <= by_ns for since_ns, _ in self.before_renewals)
        return min(seen_ns, max(expiries[surely : perhaps + 1]))

    def may_be_set_anew(self, from_ns: int, by_ns: int) -> bool:
        """Whether it may have been set, or its time to live, between the two."""
        since = [self.from_min_ns, *(since_ns for since_ns, _ in self.before_renewals)]
        until = [self.from_max_ns, *self.renewals]
        return any(a <= by_ns and b >= from_ns for a, b in zip(since, until, strict=True))


def held_keys(holdings: pd.DataFrame) -> list[HeldKey]:
    """The rows, in their order."""
    return list(map(HeldKey._make, rows_of(holdings, *HeldKey._fields)))


@dataclass(frozen=True, slots=True)
class NodeLine:
    """`of_section`: the places of the values that were set for each section. `reach`: the latest moment at which one of
    the values up to here may still have been there."""

    every: list[HeldKey]
    of_section: dict[int, list[int]]
    from_min: list[int]
    reach: list[int]

    @classmethod
    def of(cls, rows: Iterable[HeldKey]) -> NodeLine:
        """From what one node held of one lock key. If it is several keys there, a holding of one that was found by
        looking may have begun before one of another that was noticed first."""
        every = sorted(rows, key=lambda one: one.from_min_ns)
        of_section = grouped((one.section, place) for place, one in enumerate(every))
        reach = accumulate((one.to_max_ns for one in every), max)
        return cls(every, of_section, [one.from_min_ns for one in every], list(reach))

    @property
    def unread(self) -> list[HeldKey]:
        """Those whose value was gone before it could be read."""
        return [one for one in self.every if one.value is None]

    def _touching(self, start: int, until: int) -> range:
        return range(bisect_left(self.reach, start), bisect_right(self.from_min, until))

    def perhaps(self, client: str, start: int, until: int) -> list[HeldKey]:
        """What touches this time, and this process set, or of which it is not known which one did. Which of its tasks
        and calls did is not asked: a request may leave its client late, and what a client finds of its own it may hold
        once more."""
        there = (self.every[place] for place in self._touching(start, until))
        return [one for one in there if one.setter in (None, client)]

    def own(self, section: int, client: str, start: int, until: int) -> list[HeldKey]:
        """The holdings that were set for the section, and those of its process that another call had set, and that may
        have been set anew in this time, or given more."""
        again = {
            place
            for place in self._touching(start, until)
            if self.every[place].setter == client and self.every[place].may_be_set_anew(start, until)
        }
        return [self.every[place] for place in sorted(again.union(self.of_section.get(section, ())))]
