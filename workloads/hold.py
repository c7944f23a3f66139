"""How long a client stays in its section."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec

from fencepost.errors import UsageError
from fencepost.units import parse_duration_ms, plain_number

_FORMS: Final = "write 20ms, uniform:2ms-20ms or exponential:20ms"


class Hold(msgspec.Struct, frozen=True):
    """How long a client stays in its section: `20ms`, `uniform:5ms-50ms` or `exponential:20ms` (the mean; at most 20
    times the mean is drawn)."""

    kind: Literal["fixed", "uniform", "exponential"]
    low_ms: float
    high_ms: float

    @classmethod
    def parse(cls, text: str) -> Hold:
        """Raises UsageError for anything else."""
        kind, _, rest = text.rpartition(":")
        low, dash, high = rest.partition("-")
        try:
            low_ms = parse_duration_ms(low)
            high_ms = parse_duration_ms(high) if dash else low_ms
        except UsageError as error:
            raise UsageError(f"{str(error).rstrip('?')}; {_FORMS}") from None
        match kind:
            case "" | "fixed" if not dash:
                return cls("fixed", low_ms, low_ms)
            case "uniform" if dash and low_ms <= high_ms:
                return cls("uniform", low_ms, high_ms)
            case "exponential" if not dash:
                return cls("exponential", low_ms, low_ms)
        raise UsageError(f"{text!r} is not a known distribution; {_FORMS}")

    def __str__(self) -> str:
        """As `parse` reads it."""
        low = f"{plain_number(self.low_ms)}ms"
        return f"uniform:{low}-{plain_number(self.high_ms)}ms" if self.kind == "uniform" else f"{self.kind}:{low}"

    @property
    def in_words(self) -> str:
        """`2 to 20 ms`, `20 ms on average`."""
        match self.kind:
            case "uniform":
                return f"{self.low_ms:g} to {self.high_ms:g} ms"
            case "exponential":
                return f"{self.low_ms:g} ms on average"
        return f"{self.low_ms:g} ms"

    @property
    def mean_ms(self) -> float:
        """What is drawn on average."""
        return (self.low_ms + self.high_ms) / 2

    def draw_ms(self, rng: Random) -> float:
        match self.kind:
            case "fixed":
                return self.low_ms
            case "uniform":
                return rng.uniform(self.low_ms, self.high_ms)
            case "exponential":
                mean = self.low_ms
                return min(rng.expovariate(1 / mean), 20 * mean) if mean > 0 else 0.0
