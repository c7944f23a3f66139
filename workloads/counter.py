"""`Counter`: one number for each key, which a section reads and writes back plus one.

Where the numbers are kept decides how that is said: `redis_counter.py` runs scripts in the resource, `sql_counter.py`
statements in the transaction that holds the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from fencepost.history import Write


class Counter(Protocol):
    """Each method raises StaleAccessError if the access came too late. Any other exception means that its outcome is
    unknown."""

    def read(self, key: str, token: int | None) -> int:
        """The number (0 if it was never written). With a token: refused if a larger one was seen."""
        ...

    def write(self, new: Write, *, check: bool) -> None:
        """Set the number to `new.value` and record the write. With `check`, its token must not be stale."""
        ...

    def final(self, keys: Iterable[str]) -> Mapping[str, int]:
        """The numbers of these keys at the end of the run."""
        ...
