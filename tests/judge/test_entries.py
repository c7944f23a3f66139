"""What lists, sets, sorted sets and hashes held, as the commands that changed them tell."""

from __future__ import annotations

import pytest

from harness.history.entries import Entry
from tests.judge.histories import History, ms


def entries(*commands: str) -> list[Entry]:
    """Each is carried out 10 ms after the one before, by a script."""
    history = History(nodes=1).watch("n1")
    for place, words in enumerate(commands):
        at = 10 * (place + 1)
        if words == "expired":
            history.seen("n1", "expired", at, since=at - 1)
        elif words == "out of sight":
            history.seen("n1", "blind", at - 5).seen("n1", "seen", at - 1).watch("n1", at=at)
        elif words == "DEL":
            history.seen("n1", "deleted", at, since=at - 1).request("c1", "n1", "DEL k1", at - 1, at, reply="1")
        else:
            history.seen("n1", "changed", at, since=at - 1).request("c1", "n1", "EVAL it 1 k1", at - 1, at)
            history.called(words)
    ledger = history.recorded().ledger
    assert ledger is not None
    return list(ledger.entries)


def there(*commands: str) -> list[str]:
    """The members that are known to be there in the end."""
    return [entry.member for entry in entries(*commands) if entry.ended < 0 and entry.until_ns > 10**18]


LIST = ("RPUSH k1 a", "RPUSH k1 b c", "LPUSH k1 z")
SCORES = ("ZADD k1 1 a", "ZADD k1 NX 3 b 2 c")


@pytest.mark.parametrize(
    ("commands", "left"),
    [
        (LIST, ["z", "a", "b", "c"]),
        ((*LIST, "LPOP k1"), ["a", "b", "c"]),
        ((*LIST, "LPOP k1 2"), ["b", "c"]),
        ((*LIST, "RPOP k1 3"), ["z"]),
        ((*LIST, "BLPOP k1 k2 2"), ["a", "b", "c"]),
        ((*LIST, "BRPOP k1 2"), ["z", "a", "b"]),
        ((*LIST, "LTRIM k1 1 -2"), ["a", "b"]),
        ((*LIST, "LTRIM k1 1 -1"), ["a", "b", "c"]),
        ((*LIST, "LMOVE k1 k2 LEFT RIGHT"), ["a", "b", "c"]),
        ((*LIST, "LMOVE k1 k2 RIGHT LEFT"), ["z", "a", "b"]),
        ((*LIST, "RPOPLPUSH k1 k2"), ["z", "a", "b"]),
        ((*LIST, "RPOPLPUSH k2 k1", "RPOP k1"), ["", "z", "a", "b"]),
        ((*LIST, "LMOVE k2 k1 LEFT RIGHT", "LPOP k1"), ["a", "b", "c", ""]),
        ((*LIST, "LSET k1 0 y"), ["y", "a", "b", "c"]),
        ((*LIST, "LSET k1 -1 y", "LPOP k1"), ["a", "b", "y"]),
        ((*LIST, "LSET k1 1 y", "LPOP k1 2"), ["b", "c"]),
        (("RPUSH k1 a b a a", "LREM k1 1 a"), ["b", "a", "a"]),
        (("RPUSH k1 a b a a", "LREM k1 -2 a"), ["a", "b"]),
        (("RPUSH k1 a b a a", "LREM k1 0 a"), ["b"]),
        (SCORES, ["a", "b", "c"]),
        ((*SCORES, "ZPOPMIN k1"), ["b", "c"]),
        ((*SCORES, "ZPOPMIN k1 2"), ["b"]),
        ((*SCORES, "ZPOPMAX k1"), ["a", "c"]),
        ((*SCORES, "BZPOPMIN k1 3"), ["b", "c"]),
        ((*SCORES, "ZREMRANGEBYRANK k1 1 -1"), ["a"]),
        ((*SCORES, "ZREMRANGEBYSCORE k1 -inf 2"), ["b"]),
        ((*SCORES, "ZREMRANGEBYSCORE k1 (1 +inf"), ["a"]),
        ((*SCORES, "ZREMRANGEBYSCORE k1 1 (3"), ["b"]),
        ((*SCORES, "ZINCRBY k1 3 a", "ZPOPMAX k1"), ["b", "c"]),
        ((*SCORES, "ZADD k1 9 a", "ZREMRANGEBYSCORE k1 0 5"), ["a"]),
        (("HSET k1 a 1 b 2", "HINCRBY k1 c 1", "HDEL k1 a"), ["b", "c"]),
        (("SADD k1 a b", "SREM k1 b"), ["a"]),
        ((*SCORES, "PEXPIRE k1 100"), ["a", "b", "c"]),
    ],
)  # fmt: skip
def test_what_is_there(commands: tuple[str, ...], left: list[str]) -> None:
    assert there(*commands) == left


@pytest.mark.parametrize("command", ["SPOP k1", "LSET k1 9 y", "LPOP", "LREM k1 x", "LTRIM k1 0"])
def test_what_is_not_known_any_more(command: str) -> None:
    """The command chooses by itself, or its arguments are not on record, or are none of its own."""
    assert there(*LIST, command) == []
    assert there(*LIST, command, "RPUSH k1 d") == ["d"]
    assert there(*LIST, command, "RPUSH k1 d", "LREM k1 0 d") == []
    assert there(*LIST, command, "RPUSH k1 d", "RPUSH k1 e", "LPOP k1") == []
    assert there(*LIST, command, "RPUSH k1 d", "expired", "RPUSH k1 e f", "LPOP k1") == ["f"]


def test_what_a_command_sets_in_a_list_is_known_whatever_was_there() -> None:
    assert there(*LIST, "out of sight", "LSET k1 0 y") == ["y"]
    assert there(*LIST, "out of sight", "RPUSH k1 d", "LSET k1 0 y", "LPOP k1") == []


def test_what_a_node_held_is_not_known_after_it_was_out_of_sight() -> None:
    assert there(*LIST, "out of sight") == []
    assert there(*LIST, "out of sight", "RPUSH k1 d") == ["d"]
    assert there(*LIST, "out of sight", "RPUSH k1 d", "LPOP k1") == []
    assert there("out of sight", *LIST) == ["z", "a", "b", "c"]
    assert there(*LIST, "out of sight", "RPUSH k1 d", "out of sight", "RPUSH k1 e") == ["e"]
    ended = [(entry.member, entry.ended, entry.how, entry.until_ns) for entry in entries("SADD k1 a", "out of sight")]
    assert ended == [("a", -1, None, ms(15))], "it is known to be there until then"


def test_a_node_that_was_out_of_sight_says_nothing_of_another() -> None:
    history = History(nodes=2).watch("n1", "n2")
    for node in ("n1", "n2"):
        history.seen(node, "changed", 10, since=9).request("c1", node, "SADD k1 a", 9, 10)
    history.seen("n2", "blind", 20).seen("n2", "seen", 29).watch("n2", at=30)
    ledger = history.recorded().ledger
    assert ledger is not None
    assert [entry.node for entry in ledger.entries if entry.until_ns > 10**18] == ["n1"]


def test_an_entry_ends_by_the_change_that_took_it_out() -> None:
    def told(*commands: str) -> list[tuple[str, int, int, str | None]]:
        return [(entry.member, entry.added, entry.ended, entry.how) for entry in entries(*commands)]

    assert told(*SCORES, "ZREM k1 b", "ZPOPMIN k1") == [
        ("b", 1, 2, "named"),
        ("a", 0, 3, "unnamed"),
        ("c", 1, -1, None),
    ]
    assert told("HSET k1 a 1", "HSET k1 a 2 b 1", "DEL") == [
        ("a", 0, 1, "put again"),
        ("a", 1, 2, "with the key"),
        ("b", 1, 2, "with the key"),
    ]
    assert told("RPUSH k1 a b", "LSET k1 0 c") == [("a", 0, 1, "unnamed"), ("c", 1, -1, None), ("b", 0, -1, None)]
    assert told("RPUSH k1 a", "expired") == [("a", 0, 1, "with the key")]
