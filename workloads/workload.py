"""`Workload`: what the clients of a run do, which checkers judge it, and how its story reads.

A workload is one file in `workloads/kinds/` that defines `WORKLOAD`; no other file knows it. The idea is that of
Jepsen's tests, which return model, client and checker together (`jepsen/tests/linearizable_register.clj`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from time import monotonic_ns, sleep
from typing import ClassVar, Final

import msgspec

from fencepost.errors import UsageError
from workloads.control import NEVER_NS, Control
from workloads.hold import Hold
from workloads.load import LoadPhase, load_at
from workloads.lock_steps import LockSteps
from workloads.options import ClientOptions, Fencing
from workloads.resource import Resource

_SPIN_NS: Final = 1_000_000
"""After a refusal faster than this the client pauses, so that it does not spin on a lock without a retry delay."""
_LOOK_MS: Final = 20.0
"""How often a client that rests looks whether it is still to rest, and whether the run is over."""

_CANCELLED_AFTER_LOG2_MS: Final = (-2, 8)


class Inside:
    """What a client does in one section, besides extending its lease. There is one object for each section, so what one
    section has read or drawn cannot leak into the next one."""

    steps: ClassVar[tuple[str, ...]] = ()
    """The methods that a driven client may be told to call, one at a time; each returns the `Op` that it recorded."""

    def __init__(self, lock: LockSteps, resource: Resource) -> None:
        """`lock`: holds the lease of this section, and records steps (`LockSteps.step`)."""
        self.lock = lock
        self.resource = resource

    def work(self, stay: Callable[[], bool]) -> None:
        """What a client that works in a loop does here. `stay` waits for as long as the work takes, and extends the
        lease meanwhile; False: an extension was not granted, so a careful user stops working."""
        stay()


@dataclass(frozen=True, slots=True)
class Client:
    """A client as its workload sees it. `rng` draws keys, holds and pauses after quick refusals. `second`: the user of
    the lock that holds the other one of two keys."""

    options: ClientOptions
    lock: LockSteps
    resource: Resource
    control: Control
    rng: Random
    second: Client | None = None

    @property
    def users(self) -> list[Client]:
        """Itself and its second, in random order: neither name stands for the first key."""
        users = [user for user in (self, self.second) if user]
        self.rng.shuffle(users)
        return users

    @property
    def process(self) -> str:
        """The process that it belongs to: `c1`, also for the task `c1@2`."""
        return self.lock.client.partition("@")[0]

    @property
    def load(self) -> LoadPhase:
        """The load of this moment."""
        return load_at(self.options.all_loads, (monotonic_ns() - self.control.start_ns) / 1e6)


class Workload:
    """A workload; this base class is one that does nothing inside.

    `inside`: what happens in a section. `checkers`: the checkers for its own kind of record, by name; a checker that is
    `ONLY_IF_NAMED` runs only for the workloads that name it. `excluded_checkers`: general checkers that do not apply.
    `fencings`: the values of `--fencing` that it knows. `guards_data`: whether it writes anything that could be lost.
    `scripts`: the Lua scripts that its clients run in the resource. `tables`: the SQL that makes the tables of its
    data, if that is in the lock's own database (`workloads.base.RunsStatements`) and not in the resource. `readers`:
    the share of its sections whose client comes as a reader (`workloads.base.LetsReadersIn`).
    """

    inside: ClassVar[type[Inside]] = Inside
    checkers: ClassVar[tuple[str, ...]] = ()
    excluded_checkers: ClassVar[tuple[str, ...]] = ()
    fencings: ClassVar[tuple[Fencing, ...]] = ("none",)
    guards_data: ClassVar[bool] = False
    scripts: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[str | None] = None
    readers: ClassVar[float] = 0

    @property
    def is_loop(self) -> bool:
        """Whether its clients work in the loop of `run`, and so release every lock before they finish."""
        return type(self).run is Workload.run

    def check(self, options: ClientOptions) -> None:
        """Raise UsageError, naming the option, for options that mean nothing to this workload, or not together."""
        if options.renewal_ms is not None and options.extensions:
            raise UsageError("--renewal lets the lock extend its lease, --extend the clients; give only one of them")
        if options.renewal_ms is not None and (options.overstay or options.forget):
            raise UsageError("--renewal keeps leases from ending, --overstay and --forget need some that end")
        if options.reopen_ms is not None and options.tasks > 1:
            raise UsageError("--reopen closes the lock object that --tasks share; give only one of them")
        if options.fencing not in self.fencings:
            raise UsageError(
                f"--fencing {options.fencing} means nothing to --workload {options.workload}; it takes "
                f"{', '.join(self.fencings)}"
            )

    def shaped(self, load: LoadPhase, options: ClientOptions) -> LoadPhase:
        """A load, as far as it fits this workload."""
        return load

    def run(self, client: Client) -> None:
        """Work until `client.control.stop_ns`: choose a key, acquire its lock, work inside, release, rest. Raises
        whatever breaks the run itself: a lock command that died, a full disk."""
        while monotonic_ns() < client.control.stop_ns:
            load = client.load
            if not load.works(client.process):
                rest(client, _LOOK_MS)
                continue
            users = client.users
            takes_two = len(users) == 2 and client.rng.random() < client.options.two_keys
            if not (self._take_two(users, load) if takes_two else self._take_one(users[0], load)):
                return
            client.lock.reopen_if_due(*(user.lock for user in users))
            rest(client, load.think.draw_ms(client.rng))

    def _take_one(self, client: Client, load: LoadPhase) -> bool:
        """False: the time to stop came before the client was inside."""
        keys = client.options.key_names[: load.keys]
        key = keys[0] if len(keys) == 1 else client.rng.choice(keys)
        shared = self._is_reader(client)
        while enter(client, key, shared=shared):
            self._use(client, load)
            if not forgets(client):
                client.lock.release(cancel_after_ms=cancelled_after_ms(client))
                return True
        return False

    def _take_two(self, users: Sequence[Client], load: LoadPhase) -> bool:
        """Two keys in random order, so that other clients take them in the opposite one. If the second one is not
        granted in half of the time for which the first one is held, that is given back. If the first lease is over when
        it is granted, nothing is done inside. They are released in random order. False: as in `_take_one`."""
        first, second = users
        keys = first.rng.sample(first.options.key_names[: max(load.keys, 2)], 2)
        if not enter(first, keys[0], shared=self._is_reader(first)):
            return False
        now_ns = monotonic_ns()
        held_ns = min(first.lock.lapses_ns - now_ns, int(first.options.ttl_ms * 1e6))
        if not enter(second, keys[1], shared=self._is_reader(second), until_ns=now_ns + held_ns // 2):
            second.lock.give_up()
            first.lock.release(cancel_after_ms=cancelled_after_ms(first))
            return True
        hold = Hold(load.hold.kind, load.hold.low_ms / 2, load.hold.high_ms / 2)
        is_held = first.options.renewal_ms is not None or monotonic_ns() < first.lock.lapses_ns
        leaves, stays = first.rng.sample(users, 2)
        for user, beside in ((leaves, stays.lock), (stays, None)):
            if is_held:
                self._use(user, msgspec.structs.replace(load, hold=hold), beside)
            user.lock.release(cancel_after_ms=cancelled_after_ms(user))
        return True

    def _is_reader(self, client: Client) -> bool:
        return self.readers > 0 and client.rng.random() < self.readers

    def _use(self, client: Client, load: LoadPhase, beside: LockSteps | None = None) -> None:
        """What it does in its section. `beside`: holds another key meanwhile."""
        reenter(client)
        self.inside(client.lock, client.resource).work(partial(stay, client, load, beside))
        reenter(client)

    def final(self, resource: Resource, keys: Iterable[str]) -> Mapping[str, int]:
        """The last read: the value of each key. Raises what redis-py raises."""
        return {}

    def story(self, options: ClientOptions) -> str:
        """What a client did, in whole sentences, for a reader who does not know the project."""
        return f"A client that acquired it stayed inside for {options.stay_in_words} and released the lock."


def enter(client: Client, key: str, *, shared: bool = False, until_ns: int = NEVER_NS) -> bool:
    """Try until the lock is granted. False: this time, or that to stop, came first."""
    while (op := client.lock.acquire(key, shared=shared, cancel_after_ms=cancelled_after_ms(client))).outcome != "ok":
        if op.complete_ns - op.invoke_ns < _SPIN_NS:
            sleep(client.rng.uniform(0, client.options.retry_delay_ms) / 1000)
        if monotonic_ns() >= min(client.control.stop_ns, until_ns):
            return False
    return True


def cancelled_after_ms(client: Client) -> float | None:
    """When the user cancels the call that comes next: a call takes from a round trip to the time to wait, so each
    doubling of the time is as likely. None: never."""
    share = client.options.cancel
    if not share or client.rng.random() >= share:
        return None
    return 2 ** client.rng.uniform(*_CANCELLED_AFTER_LOG2_MS)


def reenter(client: Client) -> None:
    """Acquire the lock again as often as asked, as nested calls of one program do, and release it as often. The client
    is still inside then. A refusal ends the nesting, and so does the time to stop. That is done when the lease is new,
    and when the work is done: by then the lease may be over, or end meanwhile."""
    depth = 0
    while depth < client.options.reentries and monotonic_ns() < client.control.stop_ns:
        if client.lock.reenter().outcome != "ok":
            break
        depth += 1
    for _ in range(depth):
        client.lock.leave()


def forgets(client: Client) -> bool:
    """Whether the client goes on as if it had never held the lock: not before the keys of its lease are gone, because
    those that it left behind would be its own fault, and not after the time to stop."""
    share, now_ns = client.options.forget, monotonic_ns()
    if not share or not client.lock.gone_ns <= now_ns < client.control.stop_ns or client.rng.random() >= share:
        return False
    client.lock.forget()
    return True


def rest(client: Client, for_ms: float) -> None:
    """Do nothing for so long, or until the time to stop."""
    until_ns = monotonic_ns() + int(for_ms * 1e6)
    while (left_ns := min(until_ns, client.control.stop_ns) - monotonic_ns()) > 0:
        sleep(min(left_ns / 1e9, _LOOK_MS / 1e3))


def stay(client: Client, load: LoadPhase, beside: LockSteps | None = None) -> bool:
    """Stay in the section for as long as the work takes. Whenever enough of the lease is gone, extend it, if the client
    may; or ask the lock now and then, and at the end, whether it is still held, if the lock renews it. So it does with
    the lease that it holds `beside`. False: an extension was not granted, or the lock did not say yes."""
    locks = [client.lock, *([beside] if beside else [])]
    now_ns = monotonic_ns()
    until_ns = now_ns + int(load.hold.draw_ms(client.rng) * 1e6)
    if client.options.renewal_ms is not None:
        return _stay_while_held(locks, until_ns, client.options.renewal_ms)
    left = load.extensions
    if overstays(client):
        until_ns, left = client.lock.lapses_ns + int(client.rng.uniform(0, client.options.ttl_ms) * 1e6), 0
    while now_ns < until_ns:
        lock = min(locks, key=lambda lock: lock.lapses_ns)
        extend_ns = now_ns + int(max(0, lock.lapses_ns - now_ns) * load.extend_at)
        if not left or extend_ns >= until_ns:
            sleep((until_ns - now_ns) / 1e9)
            return True
        sleep((extend_ns - now_ns) / 1e9)
        if lock.extend().outcome != "ok":
            return False
        left -= 1
        now_ns = monotonic_ns()
    return True


def overstays(client: Client) -> bool:
    """Whether the client stays on when its lease is over: not if the lease has no end, or one beyond the TTL."""
    share, ttl_ns = client.options.overstay, int(client.options.ttl_ms * 1e6)
    return share > 0 and client.lock.lapses_ns <= monotonic_ns() + ttl_ns and client.rng.random() < share


def _stay_while_held(locks: Sequence[LockSteps], until_ns: int, ask_every_ms: float) -> bool:
    while True:
        left_ns = max(0, until_ns - monotonic_ns())
        sleep(min(left_ns / 1e9, ask_every_ms / 1e3))
        if any(lock.still_held().outcome != "ok" for lock in locks):
            return False
        if monotonic_ns() >= until_ns:
            return True
