"""Virtual time. Everything that runs in the world is a fiber, of which one runs at a time; the order is the seed's.

A fiber is a thread that waits for its turn, so locks keep what they have for each thread. It runs until it waits, and
then the events that are due pass by. Reading the clock takes a moment, and now and then a long one, as it does where a
processor is shared.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, Final

from cluster.parallel import at_once
from tests.judge.histories import START_NS

_STALLS_OFTEN: Final = 0.000_5
_STALL_NS: Final = 12_000_000
_LONGEST_STALL_NS: Final = 45_000_000
"""A heartbeat that is later than this is on record."""
_EPOCH_NS: Final = 1_700_000_000 * 10**9 - START_NS
_OWN: Final = ("tests.correct_locks", "tests.careless_locks", "tests.world.sockets")
_PACKAGES: Final = ("workloads", "nemesis", "cluster", "harness.run", *_OWN)


class KilledError(BaseException):
    """What ends the fibers of a process that was killed, wherever they are."""


class Process:
    """Fibers that are paused and killed together."""

    def __init__(self, stalls: bool = False) -> None:
        self.stalls, self.is_paused, self.is_killed = stalls, False, False
        self.held: list[tuple[Fiber, int]] = []
        self.fibers: list[Fiber] = []


class Fiber:
    """`turn`: how many times it has waited; an event for an earlier turn is void."""

    def __init__(self, process: Process) -> None:
        self.process, self.turn, self.is_over = process, 0, False
        self.baton = threading.Lock()
        self.baton.acquire()
        process.fibers.append(self)


class Clock:
    """`rng`: of all that is left to chance outside of the clients."""

    def __init__(self, seed: int) -> None:
        self.now_ns = START_NS
        self.rng = Random(f"{seed}:world")
        self.harness = Process()
        self.current = Fiber(self.harness)
        self.failure: BaseException | None = None
        self._events: list[tuple[int, int, Callable[[], object] | Fiber, int]] = []
        self._order = count()
        self._fibers = [self.current]

    # What the world does.

    def after(self, ns: float, call: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self.now_ns + int(ns), next(self._order), call, 0))

    def spawn(self, run: Callable[[], object], process: Process) -> Fiber:
        fiber = Fiber(process)
        self._fibers.append(fiber)

        def live() -> None:
            fiber.baton.acquire()
            try:
                if not process.is_killed:
                    run()
            except KilledError:
                pass
            except BaseException as error:
                self.failure = self.failure or error
            fiber.is_over = True
            process.fibers.remove(fiber)
            self._fibers.remove(fiber)
            self._pass_on(None)

        threading.Thread(target=live, daemon=True).start()
        self.wake(fiber)
        return fiber

    def wake(self, fiber: Fiber, in_ns: float = 0) -> None:
        heapq.heappush(self._events, (self.now_ns + int(in_ns), next(self._order), fiber, fiber.turn))

    def wait(self, for_ns: float | None) -> None:
        """Until this fiber is woken up, or so long."""
        if for_ns is not None:
            self.wake(self.current, for_ns)
        self._pass_on(self.current)

    def pause(self, process: Process) -> None:
        process.is_paused = True

    def resume(self, process: Process) -> None:
        process.is_paused = False
        held, process.held = process.held, []
        for fiber, turn in held:
            if turn == fiber.turn:
                self.wake(fiber, self.rng.randrange(20_000, 400_000))

    def kill(self, process: Process) -> None:
        process.is_killed, process.is_paused = True, False
        for fiber in process.fibers:
            self.wake(fiber)

    def end(self) -> None:
        """End what still runs."""
        for fiber in [fiber for fiber in self._fibers if fiber is not self.current]:
            self.kill(fiber.process)
        self.harness.is_killed = False
        while len(self._fibers) > 1:
            self.wait(1_000)

    def _pass_on(self, me: Fiber | None) -> None:
        """Let time pass until it is some fiber's turn; returns when it is this one's."""
        while True:
            when_ns, _, what, turn = heapq.heappop(self._events)
            self.now_ns = max(self.now_ns, when_ns)
            if not isinstance(what, Fiber):
                try:
                    what()
                except BaseException as error:
                    self.failure = self.failure or error
            elif turn == what.turn and not what.is_over:
                if what.process.is_paused:
                    what.process.held.append((what, turn))
                    continue
                self.current = what
                if what is not me:
                    what.baton.release()
                    if me is not None:
                        me.baton.acquire()
                break
        if me is not None:
            me.turn += 1
            self._check(me)

    def _check(self, me: Fiber) -> None:
        if me.process.is_killed:
            raise KilledError
        if self.failure is not None and me is self._fibers[0]:
            raise self.failure

    # What its inhabitants see in the place of time.

    def monotonic_ns(self) -> int:
        me = self.current
        self._check(me)
        self.now_ns += 200 + self.rng.getrandbits(11)
        if me.process.stalls and self.rng.random() < _STALLS_OFTEN:
            self.wait(min(self.rng.expovariate(1 / _STALL_NS), _LONGEST_STALL_NS))
        elif self._events[0][0] <= self.now_ns:
            self.wait(0)
        return self.now_ns

    def monotonic(self) -> float:
        return self.monotonic_ns() / 1e9

    def wall(self) -> float:
        return (self.monotonic_ns() + _EPOCH_NS) / 1e9

    def wall_ms(self) -> int:
        """The nodes' clock."""
        return (self.now_ns + _EPOCH_NS) // 1_000_000

    def sleep(self, seconds: float) -> None:
        self._check(self.current)
        late_ns = 50_000 + self.rng.expovariate(1 / 30_000) if self.current.process is not self.harness else 0
        self.wait(seconds * 1e9 + late_ns)

    @contextmanager
    def in_place_of_time(self, **sockets: object) -> Iterator[None]:
        """Meanwhile the modules of locks, workloads, faults and their player use this clock and these sockets."""
        mine = _Like(time, monotonic_ns=self.monotonic_ns, monotonic=self.monotonic, sleep=self.sleep, time=self.wall)
        replaced: dict[int, object] = {
            id(time): mine,
            **{id(getattr(time, name)): getattr(mine, name) for name in ("monotonic_ns", "monotonic", "sleep")},
            id(os): _Like(os, urandom=self.rng.randbytes),
            id(select): _Like(select, poll=sockets["poll"]),
            id(socket): _Like(socket, socket=sockets["socket"], create_connection=sockets["create_connection"]),
            id(threading): _Like(threading, Thread=self._thread, Condition=self._condition, Lock=self._lock),
            id(threading.Lock): self._lock,
            id(at_once): lambda calls, **_: [call() for call in calls],
        }
        changed: list[tuple[Any, str, object]] = []
        for name, module in list(sys.modules.items()):
            if name.startswith(_PACKAGES) and module is not None:
                changed += [(module, word, each) for word, each in vars(module).items() if id(each) in replaced]
        for module, word, each in changed:
            setattr(module, word, replaced[id(each)])
        try:
            yield
        finally:
            for module, word, each in changed:
                setattr(module, word, each)

    def _thread(self, target: Callable[..., object], args: tuple[object, ...] = (), **_: object) -> _Like:
        process = self.current.process
        return _Like(None, start=lambda: self.spawn(lambda: target(*args), process))

    def _condition(self) -> Condition:
        return Condition(self)

    def _lock(self) -> Condition:
        return Condition(self)


class Condition:
    """A condition, or a lock, of fibers."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._owner = clock, None
        self._sleepers: list[Fiber] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        while self._owner is not None and not self._owner.is_over:
            if not blocking:
                return False
            self._clock.sleep(0.000_1)
        self._owner = self._clock.current
        return True

    def release(self) -> None:
        self._owner = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def wait(self, timeout: float | None = None) -> None:
        self._sleepers.append(self._clock.current)
        self.release()
        self._clock.wait(None if timeout is None else timeout * 1e9)
        self.acquire()

    def notify(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for fiber in sleepers:
            self._clock.wake(fiber)


class _Like:
    """A module with some names of its own."""

    def __init__(self, real: object, **mine: object) -> None:
        vars(self).update(mine, _real=real)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_real"], name)
