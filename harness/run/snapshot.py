"""What a run shows of itself while it is on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

LOAD: Final = "load"
"""The phase in which clients work and faults are played."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The current state of a run. `phase`: what is being done, as text; `active_faults`: one line per fault."""

    phase: str
    elapsed_s: float
    total_s: float
    ops: int
    sections: int
    active_faults: tuple[str, ...]
    clients_alive: int


class Display(Protocol):
    """A view of a run while it is on; the run is handed one and knows no more of it."""

    def update(self, now: Snapshot) -> None:
        """Take the newest snapshot. Called many times per second, so it returns immediately."""
        ...
