"""On what the runs of a campaign are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Hands:
    """On what the runs are made that may be made at the same time. `count`: how many at once; `scheduler`: the address
    of a Dask scheduler whose workers make them, otherwise this machine does."""

    count: int = 1
    scheduler: str | None = None

    @classmethod
    def found(cls, workers: int | None, scheduler: str | None) -> Hands:
        """As a user asks for them. Raises UsageError if the scheduler does not answer."""
        if scheduler is None:
            return cls(workers or 1)
        from harness.campaign.dask_cluster import count_workers

        there = max(1, count_workers(scheduler))
        return cls(min(there, workers or there), scheduler)

    @property
    def are_many(self) -> bool:
        return self.count > 1 or self.scheduler is not None

    @property
    def in_words(self) -> str:
        return f"{self.count} at once" + (f" on workers of {self.scheduler}" if self.scheduler else "")


ALONE: Final = Hands()
"""One run at a time, by the command itself."""
