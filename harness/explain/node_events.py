"""Something that happened to a key on a node, as far as it is known: what, when, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

What = Literal["granted", "prolonged", "deleted", "expired"]

_DONE: Final[Mapping[str, What]] = {
    "set": "granted",
    "overwritten": "granted",
    "prolonged": "prolonged",
    "deleted": "deleted",
    "expired": "expired",
}
_ADDS: Final = ("ZADD", "SADD", "HSET", "HSETNX", "HINCRBY", "LPUSH", "RPUSH", "INCR", "INCRBY")


def what_was_done(change: str, command: str | None) -> What | None:
    """What a change of a key means: to a key that holds several members, one was granted if one was added. None if it
    means nothing here. `command`: which made the change."""
    return "granted" if change == "changed" and command in _ADDS else _DONE.get(change)


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that happened to a key on a node, between `after_ns` and `by_ns`.

    `client`, `section`: who did it (None: unknown, or the key expired). `value`: the key's value, or the one that
    should be deleted. `order`: its place among all events that the witness saw on this node; None if it did not see it.
    `request`: the one that did it, by its place in `requests.parquet`; None if that is not on record.
    """

    node: str
    key: str
    what: What
    after_ns: int
    by_ns: int
    client: str | None = None
    section: int | None = None
    value: str | None = None
    order: int | None = None
    request: int | None = None

    @property
    def whose(self) -> tuple[str | None, int | None, str | None]:
        return self.client, self.section, self.value

    def may_be_of(self, client: str, section: int) -> bool:
        """Whether this client did it, in this section for all that is known."""
        return self.client == client and self.section in (section, None)

    def sets(self, value: str | None) -> bool:
        return self.what == "granted" and self.value is not None and self.value == value

    def may_be(self, other: NodeEvent) -> bool:
        """Whether both may tell of the same thing on the same node."""
        if self.order is not None and other.order is not None:
            return self.order == other.order
        return self.after_ns <= other.by_ns and other.after_ns <= self.by_ns

    def may_follow(self, other: NodeEvent) -> bool:
        """Whether this may have happened after the other, on the same node."""
        if self.order is not None and other.order is not None:
            return self.order > other.order
        return self.by_ns > other.after_ns

    def surely_follows(self, other: NodeEvent) -> bool:
        if self.order is not None and other.order is not None:
            return self.order > other.order
        return self.after_ns > other.by_ns
