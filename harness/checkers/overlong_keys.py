"""Do keys live for longer than the lock was asked for?

An expiry is what frees a lock whose holder is gone. If keys are told to live for longer than the lease time, then for
as long as that nobody gets in after a holder died, or could not release. Nobody needs to die to see it: the witness
reads each key's time to live as soon as it is set or prolonged, and a key had at least what was left of it then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.text import milliseconds, out_of
from harness.figures import KeyFigures, Row
from harness.history.key_owners import Owners, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding, worst_first

MARGIN_MS: Final = 100
MARGIN_SHARE: Final = 0.02
"""Some locks let the keys live longer by what clocks may drift, instead of shortening the lease: so many milliseconds,
and this share of the lease time, are not held against them."""


class Figures(KeyFigures, frozen=True):
    """`keys`: on single nodes, those whose time to live was read. `overlong`: those that lived for too long;
    `longest_ms`: the longest time to live of those, 0 without any."""

    keys: int
    overlong: int
    longest_ms: float

    def rows(self) -> Iterator[Row]:
        if self.overlong:
            keys = out_of(self.overlong, self.keys, "key", "keys")
            text = f"{keys} told to live for longer than the lock was asked for, up to {milliseconds(self.longest_ms)}"
            yield Row("overlong", text, order=82)


class _Key(NamedTuple):
    """The columns of `Owners.holdings` that matter here."""

    node: str
    lock_key: str
    value: str | None
    section: int
    from_min_ns: int
    from_max_ns: int
    to_min_ns: int
    longest_ttl_ms: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    if run.owners is None:
        return Answer()
    keys = list(_read(run, run.owners))
    limit_ms = run.lease_ms * (1 + MARGIN_SHARE) + MARGIN_MS
    overlong = [key for key in keys if key.longest_ttl_ms > limit_ms]
    figures = Figures(len(keys), len(overlong), max((key.longest_ttl_ms for key in overlong), default=0))
    if not overlong:
        return Answer(figures)
    longest = max(overlong, key=lambda key: key.longest_ttl_ms)
    text = (
        f"the lock told {out_of(len(overlong), len(keys), 'key', 'keys')} to live for up to "
        f"{milliseconds(longest.longest_ttl_ms)}, although it was asked for {milliseconds(run.lease_ms)}"
    )
    clients = run.sections["client"].astype(str).tolist()
    examples = tuple(
        {
            "node": key.node,
            "key": key.lock_key,
            **({"by": clients[key.section]} if key.section >= 0 else {}),
            "at_ms": run.at_ms(key.from_max_ns),
            "ttl_ms": key.longest_ttl_ms,
        }
        for key in worst_first(overlong, longest)
    )
    return Answer(figures, (Finding("keys-outlast-lease", "lock", text, ("liveness",), len(overlong), examples),))


def _read(run: Recorded, owners: Owners) -> Iterator[_Key]:
    """The keys whose time to live is known. By a wrong clock it may be any."""
    for key in map(_Key._make, rows_of(owners.holdings, *_Key._fields)):
        was_read = key.value is not None and key.longest_ttl_ms > 0
        if was_read and not run.wrong_clocks.touch(key.node, key.from_min_ns, key.to_min_ns):
            yield key
