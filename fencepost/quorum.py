"""How many are a majority."""

from __future__ import annotations


def quorum(of: int) -> int:
    """The least number of nodes such that two sets of that many always share one."""
    return of // 2 + 1
