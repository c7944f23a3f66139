"""The options of a client, and of the lock that it opens.

An option that is declared here reaches every client process: the client gets these structs whole. One of
`LockOptions` is also an attribute of the `LockSettings` that every lock is opened with, and reaches a lock command as
one of the `settings` of `open`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from fencepost.options import Option
from workloads.hold import Hold
from workloads.load import NO_TIME, LoadPhase

Fencing = Literal["none", "writes", "all", "unique"]
"""Which operations on the resource carry a fencing token: none, writes, or reads and writes. `unique`: no token; the
lock's unique value is checked instead (`workloads.kinds.register`)."""

FENCED_COUNTER: Final = "fenced-counter"
"""The workload of a run that names none."""

_REPEATED = ("compare", "replay", "script")
_LOCK = "settings of the lock"


class LockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every lock is told when it is opened. A foreign library keeps its own settings where its adapter says so.

    `acquire_mode`: for recipes that offer both. `node_timeout_ms`: the longest wait for one node. `retry_delay_ms`:
    the upper end of the random delay between rounds. `permits`: how many clients a semaphore lets in at once.
    `renewal_ms`: the lock renews its lease by itself, and a client stays inside for as long as the lock says, which it
    asks this often; None: neither. `ttl_ms`: the lease time that every acquire asks for; some libraries have it as a
    setting. `tasks`: how many threads of one client process share the lock object.
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
    wait_ms: Annotated[
        float,
        Option(
            "--wait",
            "an acquire keeps trying for this long; foreign libraries keep their own",
            _LOCK,
            "TIME",
            low=0,
            high=3_600_000,
            unit="ms",
        ),
    ] = 0
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
    ttl_ms: Annotated[
        int,
        Option(
            "--ttl", "lease time asked for", "load", low=10, high=3_600_000, unit="ms", commands=("compare", "script")
        ),
    ] = 1_000
    tasks: Annotated[
        int, Option("--tasks", "tasks of each client process that share one lock object", "load", low=1, high=64)
    ] = 1


class ClientOptions(LockOptions, frozen=True, kw_only=True):
    """What one client does. Durations in milliseconds.

    `workload`: a name that `workloads.kinds` knows. `lock`: a recipe's name, a foreign lock's name or
    `package.module:Class`. `lock_command`: a program that speaks the lock protocol; it replaces `lock`. `extensions`:
    how many times at most a client extends its lease in one section, each time when the share `extend_at` of it is
    gone. `reentries`: how many more times a client acquires the lock that it holds. `loads`: what replaces `keys`,
    `hold`, `think`, `extensions` and `extend_at`, one after the other; empty: they are the load of the whole run.
    `overstay`, `forget`: what a client does wrong, and no lock is blamed for. `cancel`: of the acquires and releases,
    the share that the user cancels if they take too long. `two_keys`: of the sections, the share in which a client
    takes another key, too. `reopen_ms`: None: never.
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
            instead_of="lock",
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
    think: Annotated[
        Hold,
        Option(
            "--think",
            "how long a client rests between two sections, like --hold",
            "load",
            "DIST",
            low=0,
            high=3_600_000,
            bounded="high_ms",
            unit="ms",
        ),
    ] = NO_TIME
    reentries: Annotated[
        int,
        Option(
            "--reenter",
            "acquire again N times while inside, before the work and after it, and release as often each time",
            "load",
            low=0,
            high=100,
        ),
    ] = 0
    extensions: Annotated[
        int,
        Option(
            "--extend",
            "extend the lease up to N times while holding, each time at --extend-at",
            "load",
            low=0,
            high=10_000,
        ),
    ] = 0
    extend_at: Annotated[
        float,
        Option(
            "--extend-at",
            "the share of the lease after which it is extended; above 1: after it has expired",
            "load",
            "SHARE",
            low=0.01,
            high=10,
        ),
    ] = 0.5
    key_names_are: Annotated[
        Literal["numbered", "prefixes"],
        Option(
            "--key-names",
            "numbered: k1, k2, k3; prefixes: k1, k1:1, k11, k1:2, k12, where each begins with the first one",
            "load",
        ),
    ] = "numbered"
    overstay: Annotated[
        float,
        Option(
            "--overstay",
            "the share of sections in which a client stays on when its lease is over, for up to a TTL",
            "load",
            "SHARE",
            low=0,
            high=1,
        ),
    ] = 0
    forget: Annotated[
        float,
        Option(
            "--forget",
            "where the lease has expired before the work is done: the share of these sections after which the client "
            "acquires again without a release",
            "load",
            "SHARE",
            low=0,
            high=1,
        ),
    ] = 0
    cancel: Annotated[
        float,
        Option(
            "--cancel",
            "of the acquires and releases, the share that the user cancels after 0.25 to 256 ms, if they are still "
            "under way",
            "load",
            "SHARE",
            low=0,
            high=1,
        ),
    ] = 0
    two_keys: Annotated[
        float,
        Option(
            "--two-keys",
            "the share of sections in which a client takes a second key while it holds the first one, in any order",
            "load",
            "SHARE",
            low=0,
            high=1,
        ),
    ] = 0
    reopen_ms: Annotated[
        float | None,
        Option(
            "--reopen",
            "how long a client uses its lock object; between two sections it then closes it and opens another one",
            "load",
            "TIME",
            low=1,
            high=3_600_000,
            unit="ms",
        ),
    ] = None
    loads: tuple[LoadPhase, ...] = ()
    key_prefix: str = ""
    """What the names of all keys begin with."""

    @property
    def all_loads(self) -> tuple[LoadPhase, ...]:
        """The loads of the run, one after the other."""
        own = LoadPhase(
            hold=self.hold, think=self.think, keys=self.keys, extensions=self.extensions, extend_at=self.extend_at
        )
        return self.loads or (own,)

    @property
    def users_per_client(self) -> int:
        """Owners of the lock in one client process: its tasks, or two of each that holds two keys at once."""
        return self.tasks * (2 if self.two_keys else 1)

    def owner_of(self, user: str) -> str:
        """The first of the users that are one task: what one of them leaves on the nodes the other finds as its own."""
        process, _, number = user.partition("@")
        return f"{process}@{(int(number) - 1) // 2 * 2 + 1}" if self.two_keys and number else user

    @property
    def key_names(self) -> tuple[str, ...]:
        """The keys of all loads."""
        most = max(load.keys for load in self.all_loads)
        numbers = range(1, (max(most, 2) if self.two_keys else most) + 1)
        if self.key_names_are == "numbered":
            return tuple(f"{self.key_prefix}k{number}" for number in numbers)
        names = ("k1" if n == 1 else f"k1:{n // 2}" if n % 2 == 0 else f"k1{n // 2}" for n in numbers)
        return tuple(f"{self.key_prefix}{name}" for name in names)

    @property
    def stay_in_words(self) -> str:
        """How long a client stays inside: `2 to 20 ms`; over several loads the shortest and the longest."""
        if not self.loads:
            return self.hold.in_words
        low_ms, high_ms = min(load.hold.low_ms for load in self.loads), max(load.hold.high_ms for load in self.loads)
        return f"{low_ms:g} to {high_ms:g} ms"
