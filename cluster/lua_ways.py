"""The ways through a Lua script: the calls of commands that may have been made on each, and what is returned."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from typing import Final, NamedTuple

from cluster.effects import Change

ChangesOf = Callable[[str, Sequence[str], str | None], frozenset[Change]]
"""What a command with these options can have done, if it was answered so."""

ARGUMENT: Final = re.compile(r"ARGV \[ (\d+) \]")


class Call(NamedTuple):
    """A call of a command. `words`: its arguments as Lua, a literal text without its quotes."""

    command: str
    words: tuple[str, ...]
    is_repeated: bool

    @property
    def sets(self) -> int | None:
        """The number of the argument to which it sets a key, if it is one."""
        place = {"SET": 1, "SETNX": 1, "SETEX": 2, "PSETEX": 2}.get(self.command)
        found = ARGUMENT.fullmatch(self.words[place]) if place is not None and len(self.words) > place else None
        return None if found is None else int(found[1])

    def changes(self, changes_of: ChangesOf, reply: str | None) -> frozenset[Change]:
        first = {"SET": slice(2, None), "EXPIRE": slice(1, 2), "PEXPIRE": slice(1, 2)}.get(self.command, slice(0, 0))
        return changes_of(self.command, self.words[first], reply)


Guard = tuple[int, int]
"""That a key held what an argument says, by their numbers."""


class State(NamedTuple):
    """Somewhere on a way: the calls that may have been made, those that must have been, and what the keys must have
    held before them."""

    made: frozenset[int] = frozenset()
    must: frozenset[int] = frozenset()
    held: frozenset[Guard] = frozenset()

    def with_calls(self, new: frozenset[int], only_maybe: Set[int]) -> State:
        return State(self.made | new, self.must | (new - only_maybe), self.held)

    def without(self, ruled_out: frozenset[int], held: Guard | None) -> State:
        more = frozenset() if held is None or self.made else frozenset([held])
        return State(self.made - ruled_out, self.must - ruled_out, self.held | more)

    @staticmethod
    def merged(ways: Sequence[State]) -> State:
        return State(
            frozenset().union(*(way.made for way in ways)),
            frozenset.intersection(*(way.must for way in ways)),
            frozenset.intersection(*(way.held for way in ways)),
        )


class Return(NamedTuple):
    """A way out. `literal`: what is answered, as JSON, if that is known; `call`: the call whose reply is answered, by
    its number."""

    literal: str | None
    call: int | None
    state: State
