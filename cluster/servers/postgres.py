"""PostgreSQL, for locks that are held by a session. It has no keys: what it does is seen by its answers alone, and what
goes over its links is recorded as connections and bytes.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster.address import Address, LinkKey, ProbeResult
from cluster.credentials import Login
from cluster.parallel import at_once
from cluster.persistence import Policy, mismatch
from cluster.postgres_messages import DATABASE, PostgresConnection, Row, ask, query, read_reply, start_up
from cluster.server import Place, ProbeLinks, Query, Server

DATA: Final = "data"
"""The folder of its data in the tree that set-up brings (`fencepost.setup.postgres`)."""
_CLIENTS: Final = "client"
_CLIENTS_DATABASE: Final = "locks"
_MOST_CONNECTIONS: Final = 800
_DIRECT_MS: Final = 500.0
_VERSION: Final = re.compile(r"postgres \(PostgreSQL\) (\S+)")


_DURABILITY: Final = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
"""As by default. Without fsync a cut of power may leave a database that does not start again."""


def probe_links(
    targets: Mapping[LinkKey, Address], nodes: Mapping[str, Address], timeout_ms: float
) -> dict[LinkKey, ProbeResult]:
    """Open a session through each link, under a name of its own, and ask the nodes which of them they have.
    A session that was refused may have ended since, so that nothing is known of it."""
    run = f"fencepost:probe:{os.urandom(4).hex()}"
    names = {key: f"{run}:{key[0]}" for key in targets}
    opened = dict(
        zip(targets, at_once(partial(_open, targets[key], names[key], timeout_ms) for key in targets), strict=True)
    )
    try:
        asked = list(dict.fromkeys(node for _, node in targets))
        seen = dict(zip(asked, at_once(partial(_sessions, nodes[node]) for node in asked), strict=True))
    finally:
        for session, _ in opened.values():
            if session is not None:
                session.close()
    results = {}
    for key, (_, result) in opened.items():
        known = seen[key[1]]
        is_known = known is not None and (names[key] in known or not result.refused)
        results[key] = result._replace(applied=names[key] in known if known is not None and is_known else None)
    return results


def ask_as_clients(address: Address, sql: str, timeout_ms: float) -> list[Row]:
    """In the database of the clients, as the harness."""
    return ask(address, sql, timeout_ms, _CLIENTS_DATABASE)


def _open(address: Address, name: str, timeout_ms: float) -> tuple[PostgresConnection | None, ProbeResult]:
    from time import monotonic

    began_s, session, refused, answered = monotonic(), None, False, False
    try:
        session = PostgresConnection(address, timeout_ms, name=name, is_link=True)
        session.wait()
        answered = True
    except ConnectionError:
        refused = True
    except OSError:
        pass
    return session, ProbeResult(answered, None, refused, (monotonic() - began_s) * 1e3)


def _sessions(address: Address) -> frozenset[str] | None:
    """The names of its sessions; None if the node does not answer."""
    try:
        rows = ask(address, "SELECT application_name FROM pg_stat_activity", _DIRECT_MS)
    except OSError:
        return None
    return frozenset(str(name) for (name,) in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer(Server):
    """It cannot ask for the passwords of a run: any process that reaches it can log in."""

    name: str = "postgres"
    help: str = "PostgreSQL, one server, for locks that a session holds"
    family: str = "postgres"
    programs: tuple[str, ...] = ("postgres",)
    policies: tuple[Policy, ...] = ("aof-always",)
    needs_tree: bool = True
    probe_links: ProbeLinks = probe_links
    session_ends_with_connection: bool = True
    query: Query | None = ask_as_clients

    def version_in(self, output: str) -> str | None:
        found = _VERSION.search(output)
        return found[1] if found else None

    def arguments(self, place: Place) -> list[str]:
        settings = {
            "listen_addresses": place.host,
            "port": str(place.port),
            "unix_socket_directories": "",
            "max_connections": str(_MOST_CONNECTIONS),
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",
            "huge_pages": "off",
            "io_method": "sync",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "timezone": "GMT",
            "log_timezone": "GMT",
            "jit": "off",
            **_DURABILITY,
        }
        return ["-D", DATA, *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))]

    def answers(self, address: Address, timeout_ms: float, pid: int | None = None) -> bool:
        which = "SELECT 1" if pid is None else "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"
        try:
            return ask(address, which, timeout_ms) == [(str(pid or 1),)]
        except OSError:
            return False

    def running_version(self, address: Address, timeout_ms: float) -> str:
        return str(ask(address, "SHOW server_version", timeout_ms)[0][0])

    def effective_config(self, address: Address, timeout_ms: float) -> Mapping[str, str]:
        return {
            str(name): str(value) for name, value in ask(address, "SELECT name, setting FROM pg_settings", timeout_ms)
        }

    def config_mismatch(self, policy: Policy, effective: Mapping[str, str]) -> str | None:
        return mismatch(_DURABILITY.items(), effective)

    def log_in(self, connection: socket.socket, login: Login) -> None:
        """As the harness; its password is not asked for."""
        del login
        connection.sendall(start_up(f"{DATABASE} of the harness"))
        read_reply(connection)

    def ping(self, connection: socket.socket) -> None:
        connection.sendall(query("SELECT 1"))
        read_reply(connection)

    def url(self, host: str, port: int, password: str | None = None) -> str:
        return f"postgresql://{_CLIENTS}@{host}:{port}/{_CLIENTS_DATABASE}"


SERVER = PostgresServer()
