"""What a run shows of itself while it is on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

LOAD: Final = "load"
"""The phase in which clients work and faults are played."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known right now. `phase`: what is being done, in words; `active_faults`: one line a fault."""

    phase: str
    elapsed_s: float
    total_s: float
    ops: int
    sections: int
    active_faults: tuple[str, ...]
    clients_alive: int


class Display(Protocol):
    """Whoever shows a run while it is on; the run is handed one and knows no more of it."""

    def update(self, now: Snapshot) -> None:
        """Take the newest snapshot. Called many times a second, so it returns at once."""
        ...
