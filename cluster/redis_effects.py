"""What a Redis command can have done to a key, by its reply.

A command that the reply proves to have done nothing (`SET … NX` answered with nil, `DEL` with 0, any error) changed no
key. What a script can do, its text tells (`cluster.redis_scripts`). A command that is not known may have done anything
to the keys that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cluster.effects import EVERY_CHANGE, NO_CHANGE, NOTHING, Change, Effect
from cluster.redis_scripts import Script, read_script


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READS: Final = _names(
    """ACL ASKING AUTH BGREWRITEAOF BGSAVE BITCOUNT BITFIELD_RO BITPOS CLIENT CLUSTER COMMAND CONFIG DBSIZE DEBUG
    DISCARD DUMP ECHO EVALSHA_RO EVAL_RO EXEC EXISTS EXPIRETIME FAILOVER FCALL_RO FUNCTION GEODIST GEOHASH GEOPOS
    GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH GET GETBIT GETRANGE HELLO HEXISTS HGET HGETALL HKEYS HLEN HMGET
    HRANDFIELD HSCAN HSTRLEN HVALS INFO KEYS LASTSAVE LATENCY LCS LINDEX LLEN LOLWUT LPOS LRANGE MEMORY MGET MODULE
    MONITOR MULTI OBJECT PEXPIRETIME PFCOUNT PING PSUBSCRIBE PTTL PUBLISH PUBSUB PUNSUBSCRIBE QUIT RANDOMKEY READONLY
    READWRITE REPLICAOF RESET ROLE SAVE SCAN SCARD SCRIPT SDIFF SELECT SHUTDOWN SINTER SINTERCARD SISMEMBER SLOWLOG
    SMEMBERS SMISMEMBER SORT_RO SPUBLISH SRANDMEMBER SSCAN SSUBSCRIBE STRLEN SUBSCRIBE SUBSTR SUNION SUNSUBSCRIBE TIME
    TOUCH TTL TYPE UNSUBSCRIBE UNWATCH WAIT WAITAOF WATCH XINFO XLEN XPENDING XRANGE XREAD XREVRANGE ZCARD ZCOUNT ZDIFF
    ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX
    ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION"""
)
_SCRIPTS: Final = frozenset(["EVAL", "EVALSHA"])
_SET: Final[frozenset[Change]] = frozenset(["set"])
_PROLONGED: Final[frozenset[Change]] = frozenset(["prolonged"])
_DELETED: Final[frozenset[Change]] = frozenset(["deleted"])
_OTHER: Final[frozenset[Change]] = frozenset(["changed"])
_COUNTED: Final = _SET | _PROLONGED
"""A hash is set when it gets a field, and the count of one that it has prolongs what its owner has."""
_ADDING: Final = _names(
    """APPEND BITFIELD DECR DECRBY GEOADD INCR INCRBY INCRBYFLOAT LINSERT LPUSH LPUSHX LSET PFADD RPUSH
    RPUSHX SADD SETBIT SETRANGE XACK XADD XCLAIM XGROUP ZADD ZINCRBY"""
)
_REMOVING: Final = _names(
    """BLPOP BRPOP BZPOPMAX BZPOPMIN LPOP LREM LTRIM RPOP SPOP SREM XDEL XTRIM ZPOPMAX ZPOPMIN ZREM
    ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE"""
)
"""What is left empty by these is deleted."""
_CHANGES: Final[Mapping[str, frozenset[Change]]] = {
    **dict.fromkeys(["SET", "SETNX", "SETEX", "PSETEX", "GETSET", "MSET", "MSETNX"], _SET),
    **dict.fromkeys(["DEL", "UNLINK", "GETDEL"], _DELETED),
    **dict.fromkeys(["PERSIST"], _PROLONGED),
    **dict.fromkeys(["EXPIREAT", "PEXPIREAT", "GETEX"], _PROLONGED | _DELETED),
    **dict.fromkeys(_ADDING, _OTHER),
    **dict.fromkeys(_REMOVING, _OTHER | _DELETED),
    **dict.fromkeys(["HSET", "HMSET", "HSETNX", "HINCRBY", "HINCRBYFLOAT"], _COUNTED),
    **dict.fromkeys(["HDEL"], _COUNTED | _DELETED),
}
_ANY_KEY: Final = frozenset(["FCALL", "FLUSHALL", "FLUSHDB", "SWAPDB"])
_NOT_IF_ZERO: Final = _names(
    """SETNX MSETNX DEL UNLINK PERSIST EXPIRE PEXPIRE EXPIREAT PEXPIREAT HSETNX HDEL LPUSHX RPUSHX LREM SADD SREM SMOVE
    ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE RENAMENX COPY MOVE XDEL XTRIM XACK"""
)
_NOT_IF_NIL: Final = frozenset(["GETDEL", "GETEX", "LPOP", "RPOP", "SPOP", "ZPOPMIN", "BLPOP", "BRPOP", "LMOVE"])
_VALUE_AT: Final = {"SET": 1, "SETNX": 1, "GETSET": 1, "SETEX": 2, "PSETEX": 2}
_RELATIVE: Final = frozenset(["EXPIRE", "PEXPIRE"])
_ERROR: Final = '{"error":'
_IN_SCRIPT: Final = "user_script"
"""An error that came up inside a script names it so; any other one refuses the request as a whole."""


class RedisEffects:
    """`cluster.effects.Effects` of Redis and its descendants."""

    def words_of(self, command: str) -> slice | None:
        if command in _READS or not command:
            return None
        if command in _SCRIPTS:
            return slice(0, 2)
        if command == "SET":
            return slice(2, None)
        return slice(1, 2) if command in _RELATIVE else slice(0, 0)

    def effect(self, command: str, words: Sequence[str], reply: str | None, scripts: Mapping[str, str]) -> Effect:
        is_error = reply is not None and reply.startswith(_ERROR)
        if command in _SCRIPTS:
            if is_error and reply is not None and _IN_SCRIPT not in reply:
                return NOTHING
            script = _script(scripts.get(words[0].lower()) if words else None)
            changes, was = script.changes(reply), script.value_was(reply)
            keys = int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0
            value_was = None if was is None or was[0] != 1 or keys != 1 else 1 + keys + was[1]
            is_certain = keys == 1 and script.is_single and script.is_certain(reply)
            rarely = _DELETED if script.computes_times and "prolonged" in changes else NO_CHANGE
            value_at = None if script.value_set is None else 1 + keys + script.value_set
            return Effect(changes, script.any_key, script.is_single, is_certain, rarely, value_at, value_was)
        changes = NO_CHANGE if is_error else changes_of(command, words, reply)
        is_certain = not is_error and reply is not None and is_done(command, words, reply)
        return Effect(changes, command in _ANY_KEY, command in _CHANGES, is_certain, value_at=_VALUE_AT.get(command))


EFFECTS: Final = RedisEffects()


def changes_of(command: str, words: Sequence[str], reply: str | None) -> frozenset[Change]:
    """What the command can have done. `words`: of SET its options, of EXPIRE the time."""
    if command in _READS:
        return NO_CHANGE
    if command == "SET":
        options = {word.upper() for word in words}
        if "GET" in options:  # it answers with the value that was there
            is_refused = ("NX" in options and reply not in ("null", None)) or ("XX" in options and reply == "null")
        else:
            is_refused = reply == "null"
        if is_refused:
            return NO_CHANGE
        return _SET | _DELETED if options & {"EXAT", "PXAT"} else _SET
    if (reply == "0" and command in _NOT_IF_ZERO) or (reply == "null" and command in _NOT_IF_NIL):
        return NO_CHANGE
    if command in _RELATIVE:
        is_over = bool(words) and words[0].lstrip("-").isdecimal() and int(words[0]) <= 0
        return _DELETED if is_over else _PROLONGED
    return _CHANGES.get(command, EVERY_CHANGE)


_UNKNOWN: Final = Script((), is_opaque=True, any_key=True)
_KNOWN: Final[dict[str, Script]] = {}


def is_done(command: str, words: Sequence[str], reply: str | None) -> bool:
    """Whether the command certainly changed its key, once. `words`: of SET its options; `reply`: None if not known."""
    if command == "SET":
        options = {word.upper() for word in words}
        return (reply == '"OK"' or (reply is None and not options & {"NX", "XX", "GET"})) and "GET" not in options
    if command in ("SETEX", "PSETEX", "GETSET"):
        return True
    return reply == "1" and command in ("SETNX", "DEL", "UNLINK", "EXPIRE", "PEXPIRE", "PERSIST")


def _script(text: str | None) -> Script:
    """What the text tells; of a script whose text is not on record, anything may be true."""
    if text is None:
        return _UNKNOWN
    if (script := _KNOWN.get(text)) is None:
        script = _KNOWN[text] = read_script(
            text, changes_of, lambda call, reply: is_done(call.command, call.words[2:], reply)
        )
    return script
