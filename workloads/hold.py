"""How long a client stays inside its section."""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from fencepost.errors import UsageError
from fencepost.units import parse_duration_ms


class Hold(msgspec.Struct, frozen=True):
    """How long a client stays inside: `20ms`, `uniform:5ms-50ms` or `exponential:20ms` (mean, cut off at 20 means)."""

    kind: Literal["fixed", "uniform", "exponential"]
    low_ms: float
    high_ms: float

    @classmethod
    def parse(cls, text: str) -> Hold:
        kind, _, rest = text.rpartition(":")
        match kind:
            case "" | "fixed":
                value = parse_duration_ms(rest)
                return cls("fixed", value, value)
            case "uniform":
                low, dash, high = rest.partition("-")
                if dash and parse_duration_ms(low) <= parse_duration_ms(high):
                    return cls("uniform", parse_duration_ms(low), parse_duration_ms(high))
            case "exponential":
                value = parse_duration_ms(rest)
                return cls("exponential", value, value)
        raise UsageError(f"{text!r} is not a known distribution")

    def __str__(self) -> str:
        """As `parse` reads it."""
        if self.kind == "uniform":
            return f"uniform:{self.low_ms:g}ms-{self.high_ms:g}ms"
        return f"{self.kind}:{self.low_ms:g}ms"

    def draw_ms(self, rng: Random) -> float:
        match self.kind:
            case "fixed":
                return self.low_ms
            case "uniform":
                return rng.uniform(self.low_ms, self.high_ms)
            case "exponential":
                mean = self.low_ms
                return min(rng.expovariate(1 / mean), 20 * mean) if mean > 0 else 0.0
