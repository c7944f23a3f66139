"""A toy: SET NX PX on the first node, over a bare socket."""

import secrets
import socket
import time

from fencepost_adapter import Answer, Nodes, Settings, fail, ok, serve

IF_MINE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'


class FirstNode:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        self._name = settings["manifest"]["name"]
        self._socket = socket.create_connection((nodes[0]["host"], nodes[0]["port"]))
        self._replies = self._socket.makefile("rb")
        if password := nodes[0].get("password"):
            self._ask("AUTH", password)

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        value, asked_ns = f"{self._name}-{secrets.token_hex(8)}", time.monotonic_ns()
        if self._ask("SET", key, value, "NX", "PX", str(ttl_ms)) != b"+OK":
            return fail()
        return ok(value=value, validity_ms=ttl_ms, deadline_ns=asked_ns + ttl_ms * 1_000_000, requested_ns=asked_ns)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        return fail("this toy cannot extend")

    def release(self, key: str, value: str) -> Answer:
        return ok() if self._ask("EVAL", IF_MINE, "1", key, value) == b":1" else fail()

    def describe(self) -> Answer:
        return {"library": "a socket"}

    def _ask(self, *words: str) -> bytes:
        """One request, and its reply of one line."""
        parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
        self._socket.sendall("".join(parts).encode())
        return self._replies.readline().strip()


serve(FirstNode)
