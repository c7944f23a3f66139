"""What a Lua script can do to keys, and which replies say that it did nothing, read from its text.

All ways through the script are followed, each to its `return`. A return tells which of the script's calls may have
been made before it. So a script that deletes a key only if it holds the caller's value, and answers 0 otherwise, did
nothing if it answered 0. What is not understood (functions, a call whose command is computed) may do anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.effects import EVERY_CHANGE, Change
from cluster.lua_reader import Reader, StrangeScriptError
from cluster.lua_tokens import tokens_of
from cluster.lua_ways import Call, ChangesOf, Guard, Return, State

IsDone = Callable[["Call", str | None], bool]
"""Whether a call certainly changed something, if it was answered so; None: its answer is not known."""


@dataclass(frozen=True, slots=True)
class Script:
    """`any_key`: it may change keys that its caller does not name."""

    returns: Sequence[Return]
    calls: Sequence[Call] = ()
    is_opaque: bool = False
    any_key: bool = False
    changes_of: ChangesOf = lambda command, words, reply: EVERY_CHANGE
    is_done: IsDone = lambda call, reply: False

    @property
    def computes_times(self) -> bool:
        """Whether it gives a key a time to live that its text does not tell."""
        return any(
            call.command in ("EXPIRE", "PEXPIRE") and not "".join(call.words[1:2]).isdecimal() for call in self.calls
        )

    @property
    def is_single(self) -> bool:
        """Whether no way through it makes more than one call that changes something."""
        if self.is_opaque or any(call.is_repeated for call in self.calls):
            return False
        return all(len(way.state.made) <= 1 for way in self.returns)

    def changes(self, reply: str | None) -> frozenset[Change]:
        """What it can have done if it was answered so; None: it was not answered."""
        if self.is_opaque:
            return EVERY_CHANGE
        return frozenset[Change]().union(*(self._changes(way, reply) for way in self._ways(reply)))

    def is_certain(self, reply: str | None) -> bool:
        """Whether this answer proves that it changed something."""
        ways = [] if self.is_opaque or reply is None else self._ways(reply)
        return bool(ways) and all(
            any(self.is_done(self.calls[number], reply if number == way.call else None) for number in way.state.must)
            for way in ways
        )

    @property
    def value_set(self) -> int | None:
        """The number of the argument to which it sets keys; None if it may set one to another value."""
        numbers = {call.sets for call in self.calls if "set" in call.changes(self.changes_of, None)}
        return numbers.pop() if len(numbers) == 1 else None

    def value_was(self, reply: str | None) -> Guard | None:
        """What a key must have held, if the script changed something: the number of the key, and of the argument."""
        if self.is_opaque:
            return None
        guards = [way.state.held for way in self._ways(reply) if self._changes(way, reply)]
        return next(iter(sorted(frozenset.intersection(*guards))), None) if guards else None

    def _changes(self, way: Return, reply: str | None) -> frozenset[Change]:
        fits = self._may_be(way, reply)
        return frozenset[Change]().union(
            *(
                self.calls[number].changes(self.changes_of, reply if fits and number == way.call else None)
                for number in way.state.made
            )
        )

    def _ways(self, reply: str | None) -> Sequence[Return]:
        return [way for way in self.returns if self._may_be(way, reply)] or self.returns

    def _may_be(self, way: Return, reply: str | None) -> bool:
        return reply is None or way.literal is None or way.literal == reply


def read_script(text: str, changes_of: ChangesOf, is_done: IsDone) -> Script:
    """Follow the script. `changes_of`: what a command can have done; `is_done`: whether it certainly did something."""
    try:
        reader = Reader(tokens_of(text), changes_of)
        left = reader.block(State(), is_repeated=False)
    except (StrangeScriptError, RecursionError):
        return Script((), is_opaque=True, any_key=True)
    if left is not None:
        reader.returns.append(Return("null", None, left))
    return Script(reader.returns, reader.calls, any_key=reader.any_key, changes_of=changes_of, is_done=is_done)
