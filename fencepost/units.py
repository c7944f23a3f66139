"""Durations as people write them: `250ms`, `2s`, `1.5m`, and for faults `1.2ttl`. Only `0` needs no unit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fencepost.errors import UsageError

_DURATION = re.compile(r"(?P<sign>-)?(?P<amount>\d+(?:\.\d+)?)(?P<unit>us|ms|s|m|h|ttl)?", re.ASCII)
_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}


def parse_duration_ms(text: str) -> float:
    """`250ms`, `2s`, `1.5m` or `0` in milliseconds. Raises UsageError for anything else, including a minus sign and a
    number without a unit."""
    return _parse(text, "like 250ms, 2s or 1.5m", in_ttls=False).amount


def duration_text(ms: float) -> str:
    """A duration as `parse_duration_ms` reads it, which gives back exactly the same number: `250ms`, `2s`, `24h`."""
    for unit in ("h", "m", "s"):
        if ms and ms % _UNIT_MS[unit] == 0:
            return f"{ms / _UNIT_MS[unit]:.0f}{unit}"
    return f"{plain_number(ms)}ms"


def plain_number(value: float) -> str:
    """All digits that the number needs, without an exponent: `0.25`, `3600000`."""
    text = repr(value)
    if "e" in text:
        from decimal import Decimal  # rarely needed, and slow to import

        text = f"{Decimal(text):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class Duration:
    """A fixed time, or a multiple of the TTL of the lock under test."""

    amount: float
    in_ttls: bool = False

    @classmethod
    def parse(cls, text: str) -> Duration:
        """`2s`, `500ms`, `0` or `1.2ttl`. Raises UsageError for anything else."""
        return _parse(text, "like 250ms, 2s or 1.2ttl", in_ttls=True)

    def ms(self, ttl_ms: int) -> float:
        """Milliseconds, given the TTL."""
        return self.amount * ttl_ms if self.in_ttls else self.amount


def _parse(text: str, examples: str, *, in_ttls: bool) -> Duration:
    found = _DURATION.fullmatch(text.strip())
    if found is None or (found["unit"] == "ttl" and not in_ttls):
        raise UsageError(f"{text!r} is not a duration; write a number with a unit, {examples}")
    if found["sign"]:
        raise UsageError(f"{text!r} is negative, and a duration cannot be; write one {examples}")
    amount = float(found["amount"])
    if found["unit"] is None and amount:
        raise UsageError(f"{text!r} has no unit, did you mean {text.strip()}ms or {text.strip()}s?")
    if found["unit"] == "ttl":
        return Duration(amount, in_ttls=True)
    return Duration(amount * _UNIT_MS[found["unit"] or "ms"])


@dataclass(frozen=True, slots=True)
class DurationRange:
    """The range from `low` to `high`, both included."""

    low: Duration
    high: Duration

    @classmethod
    def parse(cls, text: str) -> DurationRange:
        """`5ms-1.3ttl`, or a single duration for a range of only that value. Raises UsageError for anything else."""
        low, dash, high = text.partition("-") if not text.lstrip().startswith("-") else (text, "", "")
        return cls(Duration.parse(low), Duration.parse(high if dash else low))

    def ms(self, ttl_ms: int) -> tuple[float, float]:
        """Both ends in milliseconds, given the TTL. Raises UsageError if the first is larger than the second."""
        low, high = self.low.ms(ttl_ms), self.high.ms(ttl_ms)
        if low > high:
            raise UsageError(f"a range from {low:g} ms to {high:g} ms is empty; write the smaller end first")
        return low, high
