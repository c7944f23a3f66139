"""What a scripted experiment is played on: clients that do as they are told, the nodes, and the links between them.

Each call returns when what it says is done *and was seen to hold*, so a script reads from top to bottom and needs no
waiting of its own. Faults are the same as a nemesis plays, probed and recorded in the same way; one that does not take
ends the experiment, because nothing could be concluded from it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic, sleep
from typing import Final

from cluster.base import CutKind
from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import Op
from fencepost.units import Duration
from harness.run.active_faults import ActiveFaults
from harness.run.test_run import TestRun
from harness.scripts.clients import DrivenClientSlot
from nemesis.base import Fault
from nemesis.crash import Crash
from nemesis.partition import Partition
from nemesis.pause import Pause
from nemesis.power import PowerCut
from nemesis.shutdown import Shutdown
from workloads.driven_client import Order

_TICK_S: Final = 0.01


class StopRequested(Exception):  # noqa: N818 - it ends a script, and nothing failed
    """The user asked to stop; no further step is taken."""


class Stage:
    """One run's clients and nodes. `say` is told every step and what came of it, in one line."""

    def __init__(self, test_run: TestRun, say: Callable[[str], None]) -> None:
        self._test_run = test_run
        self._say = say
        self._active = ActiveFaults(test_run.world, test_run.observe)
        self._numbers = count(1)
        self._clients = {
            name: DrivenClient(self, slot)
            for name, slot in test_run.slots.items()
            if isinstance(slot, DrivenClientSlot)
        }

    @property
    def ttl_ms(self) -> int:
        """The lease time that clients ask for."""
        return self._test_run.config.ttl_ms

    @property
    def node_names(self) -> tuple[str, ...]:
        return self._test_run.config.node_names

    def client(self, name: str) -> DrivenClient:
        """`c1` … Raises UsageError if the experiment has no such client."""
        if name not in self._clients:
            raise UsageError(f"there is no client {name!r}; this experiment has {', '.join(self._clients)}")
        return self._clients[name]

    def clients(self, *names: str) -> tuple[DrivenClient, ...]:
        return tuple(self.client(name) for name in names)

    def nodes(self, *names: str) -> Nodes:
        """`n1` … Raises UsageError if the experiment has no such node."""
        if unknown := [name for name in names if name not in self.node_names]:
            raise UsageError(f"there is no node {unknown[0]!r}; this experiment has {', '.join(self.node_names)}")
        return Nodes(self, names)

    def wait(self, time: str) -> None:
        """Let time pass: `500ms`, `2s`, `1.2ttl`."""
        self._say(f"wait {time}")
        self.wait_until(monotonic() + self.seconds(time))

    def seconds(self, time: str) -> float:
        """A duration as a number of seconds; `1.2ttl` is a multiple of the lease time."""
        return Duration.parse(time).ms(self.ttl_ms) / 1e3

    def wait_until(self, moment: float) -> None:
        """Wait until `time.monotonic()` shows this."""
        self.tick()
        while (left_s := moment - monotonic()) > 0:
            sleep(min(left_s, _TICK_S))
            self.tick()

    def inject(self, nemesis: str, fault: Fault) -> str:
        """Any fault of any nemesis; its id, to heal it with. Raises BrokenEnvironmentError if it did not take."""
        self.tick()
        fault_id = f"s{next(self._numbers)}"
        event = self._active.inject(fault_id, nemesis, fault)
        self._say(f"{event.what}: {event.seen}")
        if not event.holds:
            raise BrokenEnvironmentError(f"the step `{event.what}` did not take: {event.seen}")
        return fault_id

    def heal(self, fault_id: str) -> None:
        """Undo it. Raises BrokenEnvironmentError if it is not gone then; does nothing if it was healed before."""
        self.tick()
        if fault_id not in self._active:
            return
        event = self._active.heal(fault_id)
        self._say(f"healed {event.what}: {event.seen}")
        if not event.holds:
            raise BrokenEnvironmentError(f"the step `{event.what}` was not healed: {event.seen}")

    def heal_all(self) -> None:
        """Undo whatever is in force."""
        self._active.heal_all()

    def tick(self) -> None:
        """The duties of the harness; raises StopRequested when the user asked to stop."""
        self._test_run.tick("script", self._active.active)
        if self._test_run.interruption:
            raise StopRequested

    def tell(self, slot: DrivenClientSlot, order: Order) -> Op:
        """Have a client take one step; what it recorded."""
        self.tick()
        op = slot.tell(order, self.tick)
        self._say(f"{slot.name} {order.do}{' ' + order.key if order.key else ''}: {_in_words(op)}")
        return op


class DrivenClient:
    """One client of the experiment. Every step returns what the client recorded: look at its `outcome` if the script
    has to go on differently, and never to judge; the verdict does that."""

    def __init__(self, stage: Stage, slot: DrivenClientSlot) -> None:
        self._stage = stage
        self._slot = slot
        self._cut: str | None = None
        self._hit: str | None = None

    @property
    def name(self) -> str:
        return self._slot.name

    def sees(self, *nodes: str, cut: CutKind = "drop") -> None:
        """From now on it reaches these nodes only: its links to all others are cut, both ways, and earlier cuts of
        this client are healed. The resource it always reaches."""
        names = self._stage.nodes(*nodes).names
        before, self._cut = self._cut, None
        if lost := tuple((self.name, node) for node in self._stage.node_names if node not in names):
            self._cut = self._stage.inject("partition", Partition("script", cut, "both", lost))
        if before:
            self._stage.heal(before)

    def acquire(self, key: str) -> Op:
        """One call of the lock's acquire, with whatever retries the lock makes by itself."""
        return self._stage.tell(self._slot, Order("acquire", key))

    def enter(self, key: str) -> None:
        """`acquire`, unless it is inside already: for a script that goes on however an earlier try ended."""
        if not self._slot.is_inside():
            self.acquire(key)

    def token(self) -> Op:
        """Draw a fencing token for the lock that is held."""
        return self._stage.tell(self._slot, Order("token"))

    def read(self) -> Op:
        """Read the counter that the lock guards."""
        return self._stage.tell(self._slot, Order("read"))

    def write(self) -> Op:
        """Write what was read, plus one."""
        return self._stage.tell(self._slot, Order("write"))

    def extend(self) -> Op:
        """Prolong the lease to a whole TTL from now."""
        return self._stage.tell(self._slot, Order("extend"))

    def release(self) -> Op:
        return self._stage.tell(self._slot, Order("release"))

    def pause(self) -> None:
        """SIGSTOP. It can be told nothing until `resume`."""
        self._hit = self._stage.inject("pause", Pause(clients=(self.name,)))

    def resume(self) -> None:
        self._recover()

    def kill(self) -> None:
        """SIGKILL."""
        self._hit = self._stage.inject("crash", Crash(clients=(self.name,)))

    def restart(self) -> None:
        """A fresh process in its place, after `kill`."""
        self._recover()

    def _recover(self) -> None:
        if self._hit:
            self._stage.heal(self._hit)
        self._hit = None


class Nodes:
    """Some nodes, to take down and bring back. Every verb returns them again: `stage.nodes("n3").kill().start()`."""

    def __init__(self, stage: Stage, names: tuple[str, ...]) -> None:
        self._stage = stage
        self.names = names
        self._down: str | None = None
        self._down_since = 0.0

    def kill(self) -> Nodes:
        """SIGKILL: the process is gone, the disk is as it was."""
        return self._take_down("crash", Crash(self.names))

    def stop(self) -> Nodes:
        """A clean shutdown, which saves what the persistence policy saves."""
        return self._take_down("shutdown", Shutdown(self.names))

    def cut_power(self) -> Nodes:
        """Gone is the process, and on the disk what was not fsynced. The experiment needs `disks=True`."""
        return self._take_down("power", PowerCut(self.names))

    def start(self, after: str = "0") -> Nodes:
        """Bring them back, so long after they went down: `500ms`, `1.2ttl`."""
        if self._down is None:
            raise UsageError(f"{','.join(self.names)} did not go down; kill, stop or cut the power first")
        self._stage.wait_until(self._down_since + self._stage.seconds(after))
        self._stage.heal(self._down)
        self._down = None
        return self

    def _take_down(self, nemesis: str, fault: Fault) -> Nodes:
        if self._down is not None:
            raise UsageError(f"{','.join(self.names)} went down already; start them first")
        self._down = self._stage.inject(nemesis, fault)
        self._down_since = monotonic()
        return self


def _in_words(op: Op) -> str:
    if op.outcome != "ok":
        return f"{'refused' if op.outcome == 'fail' else 'unknown'}{f' ({op.error})' if op.error else ''}"
    match op.f:
        case "acquire" | "extend" if op.validity_ms is not None:
            return f"granted for {op.validity_ms:.0f} ms"
        case "token":
            return f"{op.token}"
        case "read" | "write":
            return f"{op.value}"
    return "done"
