"""The options of a client, and of the lock that it opens.

An option that is declared here reaches every client process: the client gets these structs whole. One of
`LockOptions` is also an attribute of the `LockSettings` that every lock is opened with, and reaches a lock command as
one of the `settings` of `open`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from fencepost.options import Option
from workloads.hold import Hold
from workloads.kinds import FENCED_COUNTER

Fencing = Literal["none", "writes", "all", "unique"]
"""Which operations on the resource carry a fencing token: none, writes, or reads and writes. `unique`: no token; the
lock's unique value is checked instead (`workloads.kinds.register`)."""

_REPEATED = ("compare", "replay", "script")
_LOCK = "settings of the lock"


class LockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every lock is told when it is opened. A foreign library keeps its own settings where its adapter says so.

    `acquire_mode`: for recipes that offer both. `node_timeout_ms`: the longest wait for one node. `retry_delay_ms`:
    the upper end of the random delay between rounds. `permits`: how many clients a semaphore lets in at once.
    `renewal_ms`: the lock renews its lease by itself, and a client stays inside for as long as the lock says, which it
    asks this often; None: neither. `tasks`: how many threads of one client process share the lock object.
    """

    acquire_mode: Annotated[
        Literal["parallel", "sequential"], Option("--acquire", "how `redlock` asks the nodes", _LOCK)
    ] = "parallel"
    node_timeout_ms: Annotated[
        float,
        Option(
            "--node-timeout",
            "longest wait for one node; foreign libraries keep their own",
            _LOCK,
            low=1,
            high=60_000,
            unit="ms",
        ),
    ] = 50
    retry_delay_ms: Annotated[
        float,
        Option(
            "--retry-delay",
            "longest random delay before a retry; foreign libraries keep their own",
            _LOCK,
            high=60_000,
            low=0,
            unit="ms",
        ),
    ] = 50
    permits: Annotated[
        int,
        Option("--permits", "clients that a semaphore lets in at once; other locks ignore it", _LOCK, low=1, high=100),
    ] = 1
    renewal_ms: Annotated[
        float | None,
        Option(
            "--renewal",
            "the lock renews its lease itself, and clients ask it this often whether they still hold it",
            _LOCK,
            "TIME",
            low=1,
            high=3_600_000,
            unit="ms",
        ),
    ] = None
    tasks: Annotated[
        int, Option("--tasks", "tasks of each client process that share one lock object", "load", low=1, high=64)
    ] = 1


class ClientOptions(LockOptions, frozen=True, kw_only=True):
    """What one client does. Durations in milliseconds.

    `workload`: a name that `workloads.kinds` knows. `lock`: a recipe's name, a foreign lock's name or
    `package.module:Class`. `lock_command`: a program that speaks the lock protocol; it replaces `lock`. `extensions`:
    how many times at most a client extends its lease in one section, each time when half of it is gone. `reentries`:
    how many more times a client acquires the lock that it holds.
    """

    workload: Annotated[
        str,
        Option("--workload", "what clients do (docs/workloads.md)", "what is tested", "NAME", commands=_REPEATED),
    ] = FENCED_COUNTER
    lock: Annotated[
        str,
        Option(
            "--lock",
            "a lock that ships with fencepost, or package.module:Class",
            "what is tested",
            "NAME",
            commands=_REPEATED,
        ),
    ] = "redlock-ng"
    lock_command: Annotated[
        str | None,
        Option(
            "--lock-command",
            "a program that speaks the lock protocol (docs/lock-protocol.md)",
            "what is tested",
            "CMD",
            commands=_REPEATED,
        ),
    ] = None
    fencing: Annotated[
        Fencing,
        Option(
            "--fencing",
            "which operations carry a fencing token; unique: the lock's unique value is checked (register)",
            "what is tested",
            commands=_REPEATED,
        ),
    ] = "none"
    keys: Annotated[int, Option("--keys", "keys that the clients compete for", "load", low=1, high=100_000)] = 1
    ttl_ms: Annotated[
        int,
        Option(
            "--ttl", "lease time asked for", "load", low=10, high=3_600_000, unit="ms", commands=("compare", "script")
        ),
    ] = 1_000
    hold: Annotated[
        Hold,
        Option(
            "--hold",
            "how long a client stays inside: 20ms, uniform:2ms-20ms or exponential:20ms",
            "load",
            "DIST",
            low=0,
            high=3_600_000,
            bounded="high_ms",
            unit="ms",
        ),
    ] = Hold("uniform", 2, 20)
    reentries: Annotated[
        int,
        Option(
            "--reenter",
            "acquire again N times while inside, and release as often before the work goes on",
            "load",
            low=0,
            high=100,
        ),
    ] = 0
    extensions: Annotated[
        int,
        Option(
            "--extend",
            "extend the lease up to N times while holding, each time when half of it is gone",
            "load",
            low=0,
            high=10_000,
        ),
    ] = 0
