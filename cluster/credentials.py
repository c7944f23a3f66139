"""Who may talk to the servers of a run, and what they may ask.

There are two users. `default` is the one that does not log in by name: the locks under test and the workload. It may do
what it likes with keys, but it cannot reconfigure a server, load code into it, or make it write where it should not.
`fencepost` is the harness. Where a run has a network namespace of its own, no other process can reach the servers and
`default` needs no password; elsewhere both need one that is drawn for this run.

A server is told the SHA-256 of a password and never the password, because every user of the machine can read the
arguments of a program. The passwords are random, so nothing can be learned from their sums.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NamedTuple, Self

HARNESS: Final = "fencepost"

_DENIED: Final = ("acl", "debug", "failover", "migrate", "module", "psync", "replicaof", "shutdown", "slaveof", "sync")
_EVERYTHING: Final = ("on", "~*", "&*", "+@all")


class Login(NamedTuple):
    """A user's name and password. Never shown."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"<login of {self.user}>"


class Access(NamedTuple):
    """The passwords of one run. `clients`: None where no other process can reach the servers."""

    harness: Login
    clients: str | None

    @classmethod
    def fresh(cls, *, closed: bool) -> Self:
        """New passwords. `closed`: clients need one, too."""
        return cls(Login(HARNESS, secrets.token_urlsafe(32)), secrets.token_urlsafe(32) if closed else None)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be on record."""
        return (self.harness.password,) if self.clients is None else (self.harness.password, self.clients)

    def users(self) -> tuple[tuple[str, ...], ...]:
        """The users as Redis's `user` directive names them: the name, then the rules."""
        return self._users(*(f"-{command}" for command in _DENIED), "-config", "+config|get")

    def sentinel_users(self) -> tuple[tuple[str, ...], ...]:
        """The users of a sentinel, whom clients may ask who the primary is, and nothing else."""
        return self._users("-@all", "+ping", "+sentinel|masters", "+sentinel|get-master-addr-by-name")

    def _users(self, *of_clients: str) -> tuple[tuple[str, ...], ...]:
        """`of_clients`: the rules that limit `default`."""
        return (
            ("default", *_EVERYTHING, "nopass" if self.clients is None else _sum(self.clients), *of_clients),
            (HARNESS, *_EVERYTHING, _sum(self.harness.password)),
        )

    def __repr__(self) -> str:
        return f"<access of {'every user' if self.clients is None else 'those with the password'}>"


def _sum(password: str) -> str:
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"
