"""What an acquire may return if the lock tells its user more than yes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lease:
    """A granted lock. `value`: what names it, ideally what the lock set on the nodes. `validity_ms`: how long it is
    held from the moment at which the lock computed that; `deadline_ns`: until when, on CLOCK_MONOTONIC
    (`time.monotonic_ns`). Leave out what the lock does not tell its user. `token`: a fencing token."""

    value: str | bytes
    validity_ms: float | None = None
    deadline_ns: int | None = None
    token: int | None = None
