"""What a request can have done to the keys of a node: what its command and its reply allow.

A server's object knows its commands (`cluster.server.Server.effects`). Here a *change* is what the node's key events
tell of a key: it was set, its time to live was set anew, it was deleted, or what it holds was changed in another way,
as that of a list is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

Change = Literal["set", "prolonged", "deleted", "changed"]
CHANGES: Final[tuple[Change, ...]] = ("set", "prolonged", "deleted", "changed")
EVERY_CHANGE: Final[frozenset[Change]] = frozenset(CHANGES)
NO_CHANGE: Final[frozenset[Change]] = frozenset()


class Effect(NamedTuple):
    """`changes`: what the request can have done, given its reply; `rarely`: what it can only have done in an unusual
    way, by an extension by no time. `any_key`: it may have done so to keys that it does not name. `is_single`: it
    changes each key at most once. `is_certain`: the reply proves that it changed its one key, once. `value_at`: the
    place of the word that a key was set to, exactly; `value_was`: of the word that the key must have held before. None
    if it is not one of the words."""

    changes: frozenset[Change] = NO_CHANGE
    any_key: bool = False
    is_single: bool = False
    is_certain: bool = False
    rarely: frozenset[Change] = NO_CHANGE
    value_at: int | None = None
    value_was: int | None = None


NOTHING: Final = Effect()


class Effects(Protocol):
    """How the requests of one kind of server change keys."""

    def words_of(self, command: str) -> slice | None:
        """Which of the words after the command decide, with the reply, what it can do; None for a command that changes
        no key, whatever its words are."""
        ...

    def effect(self, command: str, words: Sequence[str], reply: str | None, scripts: Mapping[str, str]) -> Effect:
        """`words`: those of `words_of`. `reply`: JSON as in `cluster.requests.Request`; None if there was none, and
        the server may have done it all the same. `scripts`: texts by SHA-1."""
        ...
