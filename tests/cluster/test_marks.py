"""What a mark tells of a link: whether it was answered, whether it was applied, and when nothing is known."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from cluster.address import Address, ProbeResult
from cluster.marks import by_marks

NODES = {name: Address("127.0.0.1", port) for name, port in (("n1", 1), ("n2", 2))}
LINKS = {("c1", "n1"): Address("127.0.0.1", 11), ("c2", "n1"): Address("127.0.0.1", 21)}


class World:
    """`failures`: how a write through a link ends, by its port; `loses`: whether it does nothing then; `mute`: a node
    that does not say what it has."""

    def __init__(self, *, mute: bool = False, loses: bool = False, **failures: OSError) -> None:
        self.failures = {int(port.removeprefix("at")): error for port, error in failures.items()}
        self.marks: dict[int, set[str]] = {1: set()}
        self.mute, self.loses = mute, loses

    def leave(self, link: Address, mark: str, timeout_ms: float) -> None:
        if link.port in self.failures:
            if not self.loses:
                self.marks[1].add(mark)
            raise self.failures[link.port]
        self.marks[1].add(mark)

    def find(self, node: Address, prefix: str) -> Collection[str]:
        if self.mute:
            raise TimeoutError
        return {mark for mark in self.marks[node.port] if mark.startswith(prefix)}

    def probe(self) -> dict[str, tuple[bool, bool | None, bool]]:
        found: dict[tuple[str, str], ProbeResult] = by_marks(self.leave, self.find)(LINKS, NODES, 100)
        return {client: (seen.answered, seen.applied, seen.refused) for (client, _), seen in found.items()}


def test_a_write_that_is_answered_was_applied_and_each_link_has_a_mark_of_its_own() -> None:
    world = World()
    assert world.probe() == {"c1": (True, True, False), "c2": (True, True, False)}
    assert len(world.marks[1]) == 2


def test_a_reply_that_was_lost_is_told_from_a_write_that_was() -> None:
    assert World(at11=TimeoutError()).probe()["c1"] == (False, True, False)
    assert World(at11=TimeoutError(), loses=True).probe() == {"c1": (False, False, False), "c2": (True, True, False)}


@pytest.mark.parametrize(
    ("error", "mute", "refused"),
    [
        (ConnectionRefusedError(), False, True),
        (ConnectionRefusedError(), True, True),
        (ConnectionResetError(), False, True),
        (ConnectionResetError(), True, False),
        (TimeoutError(), True, False),
    ],
)
def test_a_closed_connection_is_a_refusal_unless_the_node_itself_may_have_closed_it(
    error: OSError, mute: bool, refused: bool
) -> None:
    answered, applied, was_refused = World(at11=error, mute=mute, loses=True).probe()["c1"]
    assert (answered, applied, was_refused) == (False, None if mute else False, refused)
