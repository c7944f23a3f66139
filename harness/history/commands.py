"""What the commands of Redis do to what a lock keeps on a node, by their names in capital letters."""

from __future__ import annotations

from typing import Final

EVAL: Final = ("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO")
SCRIPTED: Final = (*EVAL, "FCALL", "FCALL_RO")
"""What they do, a script or a function says."""
RUN_SCRIPTS: Final = ("EVAL", "EVALSHA", "FCALL")
"""Of these, the ones that may write."""

SET: Final = ("SET", "SETEX", "PSETEX", "MSET")
"""Whatever the key held before."""
SET_ANYWAY: Final = ("GETSET", "SETEX", "PSETEX", "MSET")
"""SET may have a condition."""
DELETE: Final = ("DEL", "UNLINK")
RENEW: Final = ("PEXPIRE", "EXPIRE", "PEXPIREAT", "EXPIREAT")
KEEP: Final = (*RENEW, "PERSIST", "HPEXPIRE", "HEXPIRE", "HPEXPIREAT", "HEXPIREAT", "HPERSIST")
"""No entry comes or goes."""

RAISE: Final = ("INCR", "INCRBY")
LOWER: Final = ("DECR", "DECRBY")
COUNT: Final = (*RAISE, *LOWER)

SET_FIELDS: Final = ("HSET", "HMSET", "HINCRBY", "HINCRBYFLOAT")
ADD_FIELDS: Final = (*SET_FIELDS, "HSETNX")
PUSH: Final = {"LPUSH": 0, "LPUSHX": 0, "RPUSH": -1, "RPUSHX": -1}
POP: Final = {
    **dict.fromkeys(("LPOP", "BLPOP", "ZPOPMIN", "BZPOPMIN"), 0),
    **dict.fromkeys(("RPOP", "BRPOP", "ZPOPMAX", "BZPOPMAX"), -1),
}
"""At which end of a key these put in, or take out."""
POP_BLOCKED: Final = ("BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX", "BLMPOP", "BZMPOP")
"""They wait for what they take out."""
MOVE: Final = ("LMOVE", "BLMOVE", "RPOPLPUSH", "BRPOPLPUSH")
SET_IN_PLACE: Final = "LSET"
ADD: Final = (*ADD_FIELDS, *PUSH, *MOVE, "SADD", "ZADD", "ZINCRBY")
REMOVE: Final = ("HDEL", "SREM", "ZREM", "LREM")
"""They name what they take out."""

LOOK: Final = frozenset(
    (
        *("GET", "MGET", "EXISTS", "TTL", "PTTL", "STRLEN", "HGET", "HMGET", "HGETALL", "HEXISTS", "HKEYS", "HLEN"),
        *("LLEN", "LRANGE", "LINDEX", "LPOS", "SCARD", "SMEMBERS", "SISMEMBER"),
        *("ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCORE"),
    )
)
"""They change nothing."""

BLOCK_ON_LISTS: Final = ("BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BLMPOP")
LISTEN: Final = ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE")
LEAVE: Final = ("UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "RESET", "QUIT")
BLOCKING: Final = (
    *(*BLOCK_ON_LISTS, "BZPOPMIN", "BZPOPMAX", "BZMPOP", "XREAD", "XREADGROUP", "WAIT", "WAITAOF"),
    *LISTEN,
)
"""A server may answer them as late as it likes."""
CONNECT: Final = ("HELLO", "AUTH", "CLIENT", "SELECT", "PING", "COMMAND", "INFO")
