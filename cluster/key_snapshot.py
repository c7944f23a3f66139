"""See which nodes hold which live keys: read-only, straight from the nodes, as often as every few milliseconds.

One request a node, all nodes at the same time, over connections that are kept. A node that does not answer in time is
left out; its connection is closed and dialled again by the next look, so a late reply is never taken for a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from cluster.address import Address
from cluster.probe import MARK_PREFIX
from cluster.resp import Exchange, RespConnection, encode, exchange_all
from cluster.server import Holdings, Lifetimes
from fencepost.text import text_of

_MOST_KEYS = 5_000
_LOOK = f"""
local keys = redis.call('KEYS', '*')
if #keys == 0 or #keys > {_MOST_KEYS} then return {{}} end
local values = redis.call('MGET', unpack(keys))
for place, key in ipairs(keys) do
    if not values[place] and redis.call('TYPE', key).ok == 'hash' then
        local fields = redis.call('HKEYS', key)
        table.sort(fields)
        values[place] = table.concat(fields, ', ')
    end
end
return {{keys, values}}
"""
_LIFETIMES = f"""
local keys = redis.call('KEYS', '*')
if #keys == 0 or #keys > {_MOST_KEYS} then return {{}} end
local left = {{}}
for place, key in ipairs(keys) do left[place] = redis.call('PTTL', key) end
return {{keys, left}}
"""


class RedisKeyReader:
    """`cluster.server.KeyReader` for servers that speak Redis's protocol and run its scripts."""

    def __init__(self, nodes: Mapping[str, Address]) -> None:
        self._addresses = dict(nodes)
        self._connections: dict[str, RespConnection] = {}

    def look(self, timeout_ms: float = 30) -> Holdings:
        """What each node that answers within the time holds right now; marks of probes are left out."""
        return self._told(_LOOK, timeout_ms)

    def lifetimes(self, timeout_ms: float = 30) -> Lifetimes:
        """The same of the time that each key has left."""
        return self._told(_LIFETIMES, timeout_ms)

    def _told(self, script: str, timeout_ms: float) -> dict[str, dict[str, Any]]:
        asked = {
            name: Exchange(address, encode("EVAL", script, 0), connection=self._connections.pop(name, None))
            for name, address in self._addresses.items()
        }
        exchange_all(asked.values(), timeout_ms)
        held: dict[str, dict[str, Any]] = {}
        for name, exchange in asked.items():
            keys = _live_keys(exchange)
            if keys is None or exchange.connection is None:
                exchange.close()
            else:
                held[name], self._connections[name] = keys, exchange.connection
        return held

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _live_keys(exchange: Exchange) -> dict[str, Any] | None:
    """None without an answer, or with an error: the node is still loading, or is no Redis."""
    if exchange.failure is not None or not exchange.is_answered or not isinstance(reply := exchange.replies[0], list):
        return None
    keys, values = reply or ([], [])
    named = ((text_of(key), value) for key, value in zip(keys, values, strict=True))
    return {key: value for key, value in named if not key.startswith(MARK_PREFIX)}
