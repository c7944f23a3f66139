"""How many are a majority."""

from __future__ import annotations

from collections.abc import Collection


def quorum(of: int) -> int:
    """The least number of nodes such that two sets of that many always share one."""
    return of // 2 + 1


def with_a_quorum(members: Collection[str], down: Collection[str], apart: Collection[tuple[str, str]]) -> set[str]:
    """The members of one group that certainly have a quorum behind them. `apart`: who does not hear whom.

    A member that does not hear another one with a quorum is not certain: that one may lead.
    """
    alive = [name for name in members if name not in down]

    def is_joined(one: str, other: str) -> bool:
        return (one, other) not in apart and (other, one) not in apart

    backed = {one for one in alive if sum(is_joined(one, other) for other in alive) >= quorum(len(members))}
    return {one for one in backed if all(is_joined(one, other) for other in backed)}
