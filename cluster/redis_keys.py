"""Which words of a Redis command are keys: the places that `COMMAND` of Redis 8 tells, for what locks may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

_NONE: Final = frozenset(
    [
        "ACL",
        "ASKING",
        "AUTH",
        "BGREWRITEAOF",
        "BGSAVE",
        "CLIENT",
        "CLUSTER",
        "COMMAND",
        "CONFIG",
        "DBSIZE",
        "DEBUG",
        "DISCARD",
        "ECHO",
        "EXEC",
        "FAILOVER",
        "FLUSHALL",
        "FLUSHDB",
        "FUNCTION",
        "HELLO",
        "INFO",
        "KEYS",
        "LASTSAVE",
        "LATENCY",
        "LOLWUT",
        "MODULE",
        "MONITOR",
        "MULTI",
        "PING",
        "PSUBSCRIBE",
        "PUBLISH",
        "PUBSUB",
        "PUNSUBSCRIBE",
        "QUIT",
        "RANDOMKEY",
        "READONLY",
        "READWRITE",
        "REPLICAOF",
        "RESET",
        "ROLE",
        "SAVE",
        "SCAN",
        "SCRIPT",
        "SELECT",
        "SHUTDOWN",
        "SLOWLOG",
        "SPUBLISH",
        "SSUBSCRIBE",
        "SUBSCRIBE",
        "SUNSUBSCRIBE",
        "SWAPDB",
        "TIME",
        "UNSUBSCRIBE",
        "UNWATCH",
        "WAIT",
        "WAITAOF",
    ]
)
_ALL: Final = frozenset(
    ["DEL", "EXISTS", "MGET", "PFCOUNT", "PFMERGE", "SDIFF", "SINTER", "SUNION", "TOUCH", "UNLINK", "WATCH"]
)
_ALL_BUT_LAST: Final = frozenset(["BLPOP", "BRPOP", "BZPOPMAX", "BZPOPMIN"])
_TWO: Final = frozenset(
    [
        "BLMOVE",
        "BRPOPLPUSH",
        "COPY",
        "GEOSEARCHSTORE",
        "LCS",
        "LMOVE",
        "RENAME",
        "RENAMENX",
        "RPOPLPUSH",
        "SMOVE",
        "ZRANGESTORE",
    ]
)
_PAIRS: Final = frozenset(["MSET", "MSETNX"])
_COUNT_AT: Final = {
    **dict.fromkeys(["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO", "BLMPOP", "BZMPOP"], 1),
    **dict.fromkeys(["LMPOP", "SINTERCARD", "ZDIFF", "ZINTER", "ZINTERCARD", "ZMPOP", "ZUNION"], 0),
}
"""The place, after the command's name, of the number that says how many keys follow."""
_STREAMS: Final = frozenset(["XREAD", "XREADGROUP"])
_OF_SUBCOMMAND: Final = frozenset(["MEMORY", "OBJECT", "XGROUP", "XINFO"])


def keys_of(command: str, words: Sequence[str]) -> Sequence[str]:
    """The keys among the words that follow the command's name, which is in upper case. Of a command that is not known,
    the first word is taken for its key, as it is for nearly all commands that have one."""
    return words[places_of(command, words)]


def places_of(command: str, words: Sequence[str]) -> slice:
    """Where the keys are among these words."""
    find = _PLACES.get(command)
    return slice(1) if find is None else find(words)


def deciding(command: str) -> slice:
    """Which of the words that follow the command decide, with their number, where the keys are."""
    if command in _STREAMS:
        return slice(None)
    at = _COUNT_AT.get(command)
    return slice(0) if at is None else slice(at, at + 1)


def _always(places: slice, words: Sequence[str]) -> slice:
    return places


def _counted(at: int, words: Sequence[str]) -> slice:
    """As many as the word there says, behind it."""
    known = len(words) > at and words[at].isdecimal()
    return slice(at + 1, at + 1 + int(words[at])) if known else slice(0)


def _of_streams(words: Sequence[str]) -> slice:
    """The first half of what follows the word STREAMS."""
    begin = next((at for at, word in enumerate(words) if word.upper() == "STREAMS"), len(words)) + 1
    return slice(begin, begin + (len(words) - begin) // 2)


_PLACES: Final[Mapping[str, Callable[[Sequence[str]], slice]]] = {
    **dict.fromkeys(_NONE, partial(_always, slice(0))),
    **dict.fromkeys(_ALL, partial(_always, slice(None))),
    **dict.fromkeys(_ALL_BUT_LAST, partial(_always, slice(None, -1))),
    **dict.fromkeys(_TWO, partial(_always, slice(2))),
    **dict.fromkeys(_PAIRS, partial(_always, slice(None, None, 2))),
    **{command: partial(_counted, at) for command, at in _COUNT_AT.items()},
    **dict.fromkeys(_STREAMS, _of_streams),
    **dict.fromkeys(_OF_SUBCOMMAND, partial(_always, slice(1, 2))),
}
