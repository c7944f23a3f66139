"""What the harness asks servers that are not the run's own, before a run and after it: over TLS and with a login if
need be, and nothing that changes more than keys of the run."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import hiredis

from cluster.probe import MARK_PREFIX
from cluster.resp import encode
from cluster.upstream import Upstream, primary_of
from fencepost.errors import UsageError
from fencepost.text import printable

OWN_PREFIX: Final = "fencepost:"
"""The names of all keys that runs use on such servers contain it."""
_ANSWERS_WITHIN_S: Final = 5.0
_SCANNED: Final = 1_000
_MOST_LOOKED_AT: Final = 200_000
"""The most keys that are read in search of one that is not a run's; a server with more holds other data."""
WITH_DATA: Final = "--nodes-with-data"


class Known(NamedTuple):
    """What a server says of itself. `product`: `redis` or `valkey`. `life`: differs after each restart."""

    product: str
    version: str
    life: str


class Conversation:
    """A blocking connection, which is made. Methods raise OSError."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader = hiredis.Reader(encoding="utf-8", errors="replace", notEnoughData=Ellipsis)

    def ask(self, *words: str | int) -> object:
        """The reply, which may be an error (`hiredis.ReplyError`)."""
        self._socket.sendall(encode(*words))
        while (reply := self._reader.gets()) is Ellipsis:
            if not (received := self._socket.recv(1 << 16)):
                raise ConnectionResetError("it closed the connection")
            self._reader.feed(received)
        return reply

    def close(self) -> None:
        self._socket.close()


def _context(server: Upstream) -> ssl.SSLContext | None:
    """Raises UsageError if there is no authority in its file."""
    if not server.tls:
        return None
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if server.ca is not None:
        try:
            context.load_verify_locations(cadata=server.certificates)
        except ssl.SSLError:
            raise UsageError(f"--nodes-ca {server.ca}: there is no certificate in it; name a file in PEM") from None
    return context


def _over_tls(server: Upstream, context: ssl.SSLContext, plain: socket.socket) -> socket.socket:
    try:
        return context.wrap_socket(plain, server_hostname=server.host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        hint = "" if server.ca else "; name the authority's file with --nodes-ca"
        raise _refused(server, f"its certificate is not trusted ({error.verify_message}){hint}") from None
    except OSError as error:
        plain.close()
        why = f"it does not speak TLS there ({_reason(error)}); a server without TLS is a redis:// URL"
        raise _refused(server, why) from None


@contextmanager
def talking_to(server: Upstream) -> Iterator[Conversation]:
    """A connection that is logged in. Raises UsageError if there is none to be had."""
    context = _context(server)
    try:
        connection = socket.create_connection(server[:2], _ANSWERS_WITHIN_S)
    except OSError as error:
        raise _refused(server, f"it cannot be reached ({_reason(error)}); check host and port") from None
    conversation = Conversation(connection if context is None else _over_tls(server, context, connection))
    try:
        if server.login is not None and isinstance(reply := conversation.ask("AUTH", *server.login), Exception):
            raise _refused(server, f"it refuses the login ({_first_words(reply)})")
        if isinstance(pong := conversation.ask("PING"), Exception):
            needs = "a login: write user:password@ before the host" if "NOAUTH" in str(pong) else _first_words(pong)
            raise _refused(server, f"it needs {needs}" if "NOAUTH" in str(pong) else f"it answers {needs}")
        yield conversation
    except (OSError, hiredis.ProtocolError) as error:
        hint = "" if server.tls else "; a server with TLS is a rediss:// URL"
        raise _refused(server, f"it does not answer as a Redis ({_reason(error)}){hint}") from None
    finally:
        conversation.close()


def examine(servers: Sequence[Upstream], *, with_data: bool) -> list[Known]:
    """Whether a run may have these servers as its nodes, and what they say of themselves. Raises UsageError, naming the
    server, for one that cannot be reached, does not let the user do what a lock does, is no primary of its own, or
    (unless `with_data`) holds keys that no run has set."""
    found: dict[str, Upstream] = {}
    known = []
    for server in servers:
        with talking_to(server) as conversation:
            info = _info(server, conversation)
            _check_role(server, info)
            _check_rights(server, conversation)
            if not with_data:
                _check_data(server, conversation, info)
        own = _known(info)
        if (other := found.setdefault(own.life, server)) is not server:
            raise _refused(server, f"it is the same server as {other.url}; each node is a server of its own")
        known.append(own)
    return known


def delete_keys(server: Upstream, prefix: str) -> int:
    """Delete the keys whose names contain the prefix of one run; returns how many there were. Raises UsageError if the
    server cannot be asked."""
    deleted = 0
    with talking_to(server) as conversation:
        for keys in _scan(conversation, f"*{prefix}*"):
            mine = [key for key in keys if prefix in key]
            if mine and isinstance(reply := conversation.ask("DEL", *mine), int):
                deleted += reply
    return deleted


def life_of(info: str) -> str:
    """What differs once a server has been restarted, has got another role, or has given up keys to save memory."""
    facts = _facts(info)
    return " ".join(facts.get(name, "") for name in ("run_id", "role", "evicted_keys"))


def _info(server: Upstream, conversation: Conversation) -> dict[str, str]:
    texts = [conversation.ask("INFO", section) for section in ("server", "stats", "replication", "cluster", "keyspace")]
    for text in texts:
        if isinstance(text, Exception):
            raise _refused(server, f"INFO, which shows a restart, is refused ({_first_words(text)}); grant +info")
    return _facts("\n".join(map(str, texts)))


def _facts(info: str) -> dict[str, str]:
    return dict(line.strip().partition(":")[::2] for line in info.splitlines())


def _known(info: dict[str, str]) -> Known:
    product = info.get("server_name") or "redis"
    version = info.get(f"{product}_version") or info.get("redis_version") or "unknown"
    return Known(printable(product), printable(version), info.get("run_id", ""))


def _check_role(server: Upstream, info: dict[str, str]) -> None:
    if info.get("redis_mode") == "sentinel":
        raise _refused(server, f"it is a sentinel: {primary_of(server.host, server.port)}")
    if info.get("cluster_enabled") == "1":
        raise _refused(server, "it is part of a Redis Cluster, which sends clients elsewhere; name single servers")
    if info.get("role", "master") != "master":
        raise _refused(server, f"it is a replica; name its primary, {info.get('master_host', 'which INFO tells')}")


def _check_rights(server: Upstream, conversation: Conversation) -> None:
    """Raises UsageError unless the user may do what a lock does, to a key of our own that is gone at once."""
    key = f"{MARK_PREFIX}rights"
    steps: tuple[tuple[str | int, ...], ...] = (
        ("SET", key, "1", "NX", "PX", 1_000),
        ("EVAL", "return redis.call('PEXPIRE', KEYS[1], 1000)", 1, key),
        ("SCAN", 0, "MATCH", key, "COUNT", 1),
        ("DEL", key),
    )
    for step in steps:
        if isinstance(reply := conversation.ask(*step), Exception):
            raise _refused(
                server,
                f"{step[0]} is refused ({_first_words(reply)}); grant ~*{OWN_PREFIX}* and +@read +@write +@scripting "
                "+@connection +info",
            )


def _check_data(server: Upstream, conversation: Conversation, info: dict[str, str]) -> None:
    others = sorted(name for name in info if name.startswith("db") and name[2:].isdecimal() and name != "db0")
    looked_at = 0
    for keys in _scan(conversation, "*"):
        looked_at += len(keys)
        foreign = next((key for key in keys if OWN_PREFIX not in key), None)
        if foreign is not None or looked_at > _MOST_LOOKED_AT:
            raise _refused(
                server,
                f"it holds other data (a key {printable(foreign or keys[0])!r}); name a server for tests, or add "
                f"{WITH_DATA}: a run touches keys with {OWN_PREFIX} in their names only, but loads the server",
            )
    if others:
        raise _refused(server, f"it holds other data (in {others[0]}); name a server for tests, or add {WITH_DATA}")


def _scan(conversation: Conversation, pattern: str) -> Iterator[list[str]]:
    cursor = "0"
    while True:
        reply = conversation.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED)
        if not isinstance(reply, list):
            raise ConnectionAbortedError(f"SCAN was answered with {reply!r}")
        cursor, keys = str(reply[0]), reply[1]
        if keys:
            yield keys
        if cursor == "0":
            return


def _refused(server: Upstream, why: str) -> UsageError:
    return UsageError(f"--nodes-at {server.url}: {why}")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_ANSWERS_WITHIN_S:g} s"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _first_words(error: object) -> str:
    return printable(str(error))[:100]
