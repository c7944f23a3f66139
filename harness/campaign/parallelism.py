"""Parallelism of a study: local workers or a Dask scheduler."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Final

from fencepost.errors import UsageError
from fencepost.options import Option

_AUTO: Final = "auto"
_MOST_PER_CORE: Final = 4
"""More never went undisturbed."""


@dataclass(frozen=True, slots=True)
class AtOnce:
    """How many runs a user wants at the same time. `count`: None for as many as do not disturb each other."""

    count: int | None

    @classmethod
    def parse(cls, text: str) -> AtOnce:
        """Raises UsageError."""
        if text == _AUTO:
            return cls(None)
        if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= 10_000 or len(text) > 5:
            raise UsageError(f"{text[:40]!r} is not a number from 1 to 10000, nor {_AUTO}")
        return cls(int(text))

    def __str__(self) -> str:
        return _AUTO if self.count is None else str(self.count)


SideBySide = Annotated[
    AtOnce | None,
    Option(
        "--workers",
        "runs at the same time; auto: as many as do not disturb each other",
        metavar="N|auto",
        shown_default="1, or all workers of --scheduler",
    ),
]


OnScheduler = Annotated[
    str | None,
    Option("--scheduler", "make the runs on the workers of this Dask scheduler", metavar="tcp://HOST:PORT"),
]


@dataclass(frozen=True, slots=True)
class Hands:
    """What makes the runs that may be made in parallel. `count`: how many at once at most; `is_finding`:
    whether fewer are made if so many disturb each other; `scheduler`: the address of a Dask scheduler whose workers
    make them, otherwise this machine does."""

    count: int = 1
    scheduler: str | None = None
    is_finding: bool = False

    @classmethod
    def found(cls, wanted: AtOnce | None, scheduler: str | None) -> Hands:
        """As a user asks for them. Raises UsageError if the scheduler does not answer."""
        is_finding = wanted is not None and wanted.count is None
        if scheduler is None:
            alone = 1 if wanted is None else _MOST_PER_CORE * (os.cpu_count() or 1)
            return cls((wanted.count if wanted else None) or alone, is_finding=is_finding)
        from harness.campaign.dask_cluster import count_workers

        there = max(1, count_workers(scheduler))
        return cls(min(there, (wanted.count if wanted else None) or there), scheduler, is_finding)

    @property
    def are_many(self) -> bool:
        return self.count > 1 or self.scheduler is not None

    @property
    def in_words(self) -> str:
        number = f"up to {self.count} at once" if self.is_finding else f"{self.count} at once"
        return number + (f" on workers of {self.scheduler}" if self.scheduler else "")


ALONE: Final = Hands()
"""One run at a time, by the command itself."""
