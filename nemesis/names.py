"""`targets=n4,n5`: nodes that the user names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import UsageError

NAMED_NODES = "named nodes"
"""What the targets of such a fault are called in its description."""
_NAME = re.compile(r"n[1-9]\d?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Names:
    """Some nodes, by name."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Names | None:
        """`n4,n5`; None for text that begins like no node. Raises UsageError for a list that is not one of nodes."""
        words = [word.strip() for word in text.split(",")]
        if not _NAME.fullmatch(words[0]):
            return None
        if wrong := next((word for word in words if not _NAME.fullmatch(word)), None):
            raise UsageError(f"{wrong!r} is no node; nodes are n1, n2, …")
        if len(set(words)) < len(words):
            raise UsageError(f"{text!r} names a node twice")
        return cls(tuple(words))

    def of(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """These of the run's nodes, in the run's order. Raises UsageError for one that the run does not have."""
        if foreign := [name for name in self.names if name not in nodes]:
            raise UsageError(
                f"targets={','.join(self.names)}: there is no {foreign[0]}; the nodes of this run are {nodes[0]} to "
                f"{nodes[-1]}"
            )
        return tuple(name for name in nodes if name in self.names)
