"""What a script controls: driven clients, the nodes, and the links between them.

Each call returns after its effect was *observed*, so a script reads from top to bottom and needs no waits of its own.
Faults are those of the nemeses, and are probed and recorded in the same way. A fault that has no effect ends the
experiment, because it would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic, sleep
from typing import Final, Literal

from cluster import replication
from cluster.address import LinkKey
from cluster.base import RESOURCE, Cluster, CutKind, Direction, NotInTimeError
from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import LOCK_STEPS, Op
from fencepost.units import Duration
from harness.run.active_faults import ActiveFaults
from harness.run.run import ActiveRun
from harness.scripts.clients import DrivenClientSlot
from nemesis.base import Fault
from nemesis.clock import WrongClock
from nemesis.crash import Crash
from nemesis.partition import Partition
from nemesis.pause import Pause
from nemesis.power import PowerCut
from nemesis.shutdown import Shutdown
from workloads.driven_client import StepOrder

_TICK_S: Final = 0.01
_KEY_WITHIN_S: Final = 10.0
_ASK_SENTINELS_EVERY_S: Final = 0.05
_FAILOVER_WITHIN_S: Final = 2 * 2 * replication.FAILOVER_LIMIT_MS / 1e3

_Undoable = Literal["cut", "hit", "held", "wrong"]
"""What a script does to a client and takes back: its links, its process, what it sends or is sent, its clock."""


class StopRequested(Exception):  # noqa: N818 - it ends a script, but nothing failed
    """The user asked to stop; no further step is taken."""


class Stage:
    """One run's clients and nodes. `say` receives one line for every step and its result."""

    def __init__(self, run: ActiveRun, say: Callable[[str], None]) -> None:
        self._run = run
        self.say = say
        self._active = ActiveFaults(run.world, run.observe)
        self._numbers = count(1)
        self._clients = {
            name: DrivenClient(self, slot) for name, slot in run.slots.items() if isinstance(slot, DrivenClientSlot)
        }

    @property
    def cluster(self) -> Cluster:
        return self._run.world.cluster

    @property
    def ttl_ms(self) -> int:
        """The TTL that clients ask for."""
        return self._run.config.ttl_ms

    @property
    def node_names(self) -> tuple[str, ...]:
        return self._run.config.node_names

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
        self.say(f"wait {time}")
        self.wait_until(monotonic() + self.seconds(time))

    def seconds(self, time: str) -> float:
        """A duration as a number of seconds; `1.2ttl` is a multiple of the lease time."""
        return Duration.parse(time).ms(self.ttl_ms) / 1e3

    def step_ms(self, by: str) -> int:
        """A step of a clock in milliseconds: `1.2ttl` ahead, `-500ms` behind."""
        sign, time = (-1, by[1:]) if by.startswith("-") else (1, by)
        return sign * round(self.seconds(time) * 1_000)

    def wait_until(self, moment: float) -> None:
        """Wait until `time.monotonic()` reaches this value."""
        self.tick()
        while (left_s := moment - monotonic()) > 0:
            sleep(min(left_s, _TICK_S))
            self.tick()

    def await_failover(self, old: str) -> None:
        """Wait until all sentinels name another primary than `old`, and it is one. Raises BrokenEnvironmentError if
        that takes longer than two failovers that come to nothing. The experiment needs replication="sentinel"."""
        cluster = self.cluster
        if not cluster.sentinels:
            raise UsageError("no sentinel watches the nodes; the experiment needs replication='sentinel'")
        deadline = monotonic() + _FAILOVER_WITHIN_S
        while (new := replication.primary_of(cluster.sentinels.values(), cluster.nodes.values())) is None or (
            new.name == old
        ):
            if monotonic() > deadline:
                raise BrokenEnvironmentError(f"no sentinel replaced {old} within {_FAILOVER_WITHIN_S:g} s; see logs/")
            self.wait_until(monotonic() + _ASK_SENTINELS_EVERY_S)
        self.say(f"the sentinels promoted {new.name}")

    def inject(self, nemesis: str, fault: Fault) -> str:
        """Inject any fault of any nemesis and return its id, for `heal`. Raises BrokenEnvironmentError if it had no
        effect."""
        self.tick()
        fault_id = f"s{next(self._numbers)}"
        event = self._active.inject(fault_id, nemesis, fault)
        self.say(f"{event.what}: {event.seen}")
        if not event.holds:
            self.tick()
            raise BrokenEnvironmentError(f"the step `{event.what}` had no effect: {event.seen}")
        return fault_id

    def heal(self, fault_id: str) -> None:
        """Undo a fault. Raises BrokenEnvironmentError if it is still there then; does nothing if it was healed
        before."""
        self.tick()
        if fault_id not in self._active:
            return
        try:
            event = self._active.heal(fault_id)
        except NotInTimeError as late:
            self.tick()
            raise BrokenEnvironmentError(f"a step was not healed in time: {late}") from late
        self.say(f"healed {event.what}: {event.seen}")
        if not event.holds:
            raise BrokenEnvironmentError(f"the step `{event.what}` was not healed: {event.seen}")

    def heal_all(self) -> None:
        """Undo all active faults."""
        self._active.heal_all()

    def tick(self) -> None:
        """Do the harness's periodic work; raises StopRequested when the user asked to stop."""
        self._run.tick("script", self._active.active)
        if self._run.interruption:
            raise StopRequested

    def tell(self, slot: DrivenClientSlot, order: StepOrder) -> Op:
        """Have a client take one step; returns what it recorded."""
        return self.begin(slot, order)()

    def begin(self, slot: DrivenClientSlot, order: StepOrder) -> Callable[[], Op]:
        """Have a client begin a step; what is returned waits for it and returns what it recorded."""
        self.tick()
        slot.tell(order)

        def finish() -> Op:
            op = slot.answer(self.tick)
            self.say(f"{slot.name} {order.do}{' ' + order.key if order.key else ''}: {_in_words(op)}")
            return op

        return finish


class DrivenClient:
    """One client of the experiment. Every step returns what the client recorded. A script may branch on its `outcome`,
    but should not judge it; the verdict does that."""

    def __init__(self, stage: Stage, slot: DrivenClientSlot) -> None:
        self._stage = stage
        self._slot = slot
        self._faults: dict[_Undoable, str] = {}

    @property
    def name(self) -> str:
        return self._slot.name

    def sees(self, *nodes: str, cut: CutKind = "drop") -> None:
        """From now on the client reaches only these nodes: its links to all others are cut, both ways, and its earlier
        cuts are healed. It always reaches the resource."""
        names = self._stage.nodes(*nodes).names
        before = self._faults.pop("cut", None)
        if lost := tuple((self.name, node) for node in self._stage.node_names if node not in names):
            self._faults["cut"] = self._stage.inject("partition", Partition("script", cut, "both", lost))
        if before:
            self._stage.heal(before)

    def acquire(self, key: str) -> Op:
        """One call of the lock's acquire, including the lock's own retries."""
        return self._stage.tell(self._slot, StepOrder("acquire", key))

    def enter(self, key: str, within: str = "0") -> None:
        """`acquire`, unless the client is already inside: for a script that continues however an earlier attempt
        ended. `within`: it tries again and again for this long. A client that dialled a container while that was down
        hears of its return only when the kernel dials again, after seconds."""
        deadline = monotonic() + self._stage.seconds(within)
        while not self._slot.is_at("inside"):
            self.acquire(key)
            if monotonic() >= deadline:
                break

    def step(self, name: str) -> Op:
        """A step of the workload, by name (docs/workloads.md lists them)."""
        return self._stage.tell(self._slot, StepOrder(name))

    def begin(self, name: str, key: str = "") -> Callable[[], Op]:
        """Begin a step that something holds up; the script goes on. What is returned finishes it: it waits, and returns
        what the client recorded. A client takes one step at a time."""
        self._stage.say(f"{self.name} begins {name}")
        return self._stage.begin(self._slot, StepOrder(name, key))

    def hold_requests(self, *servers: str) -> None:
        """From now on what the client sends to these nodes (without any: to the resource) arrives only when `let_go` is
        called."""
        self._hold("to-node", servers)

    def hold_replies(self, *servers: str) -> None:
        """From now on what these nodes (without any: the resource) reply arrives only when `let_go` is called."""
        self._hold("from-node", servers)

    def let_go(self) -> None:
        """What was held arrives now, late."""
        self._undo("held")

    def token(self) -> Op:
        """Draw a fencing token for the lock that is held."""
        return self.step("token")

    def read(self) -> Op:
        """Read what the lock guards."""
        return self.step("read")

    def write(self) -> Op:
        """Write it; the counter is written as the value that was read, plus one."""
        return self.step("write")

    def extend(self) -> Op:
        """Extend the lease to a full TTL from now."""
        return self._stage.tell(self._slot, StepOrder("extend"))

    def release(self) -> Op:
        return self._stage.tell(self._slot, StepOrder("release"))

    def pause(self) -> None:
        """SIGSTOP. It takes no steps until `resume`."""
        self._faults["hit"] = self._stage.inject("pause", Pause(clients=(self.name,)))

    def resume(self) -> None:
        self._undo("hit")

    def kill(self) -> None:
        """SIGKILL."""
        self._faults["hit"] = self._stage.inject("crash", Crash(clients=(self.name,)))

    def restart(self) -> None:
        """Start a new process in its place, after `kill`."""
        self._undo("hit")

    def step_clock(self, by: str) -> None:
        """Set its wall clock ahead by this time, or behind: `1.2ttl`, `-500ms`. The experiment needs `clocks=True`."""
        self.right_clock()
        wrong = WrongClock(ahead_ms=self._stage.step_ms(by), clients=(self.name,))
        self._faults["wrong"] = self._stage.inject("clock", wrong)

    def right_clock(self) -> None:
        """Set its wall clock right again."""
        self._undo("wrong")

    def _hold(self, direction: Direction, servers: tuple[str, ...]) -> None:
        if "held" in self._faults:
            raise UsageError(f"what {self.name} sends or is sent is already held; let it go first")
        links = tuple((self.name, server) for server in servers or (RESOURCE,))
        self._faults["held"] = self._stage.inject("partition", Partition("script", "hold", direction, links))

    def _undo(self, what: _Undoable) -> None:
        if fault := self._faults.pop(what, None):
            self._stage.heal(fault)


class Nodes:
    """Some nodes, to take down and restart. Every method returns them, for chaining:
    `stage.nodes("n3").kill().start()`."""

    def __init__(self, stage: Stage, names: tuple[str, ...]) -> None:
        self._stage = stage
        self.names = names
        self._down: str | None = None
        self._wrong: str | None = None
        self._down_since = 0.0

    def kill(self) -> Nodes:
        """SIGKILL: the process is gone, the disk is unchanged."""
        return self._take_down("crash", Crash(self.names))

    def stop(self) -> Nodes:
        """A clean shutdown, which saves what the persistence policy saves."""
        return self._take_down("shutdown", Shutdown(self.names))

    def cut_power(self) -> Nodes:
        """The process is gone, and the disk loses everything that was not fsynced. The experiment needs
        `disks=True`."""
        return self._take_down("power", PowerCut(self.names))

    def start(self, after: str = "0") -> Nodes:
        """Restart them this long after they went down: `500ms`, `1.2ttl`."""
        if self._down is None:
            raise UsageError(f"{','.join(self.names)} did not go down; kill, stop or cut the power first")
        self._stage.wait_until(self._down_since + self._stage.seconds(after))
        self._stage.heal(self._down)
        self._down = None
        return self

    def hold(self, key: str) -> Nodes:
        """Wait until each of these nodes holds this key of any owner. Raises BrokenEnvironmentError if they do not
        within seconds, or if their server cannot list its keys."""
        if (reader := self._stage.cluster.key_reader()) is None:
            raise BrokenEnvironmentError("the nodes' server cannot list its keys")
        deadline, named = monotonic() + _KEY_WITHIN_S, ", ".join(self.names)
        with reader:
            while not all(key in reader.look().get(node, ()) for node in self.names):
                if monotonic() > deadline:
                    raise BrokenEnvironmentError(f"{named} did not all hold {key} within {_KEY_WITHIN_S:g} s")
                self._stage.tick()
        self._stage.say(f"{named} hold {key}")
        return self

    def step_clock(self, by: str) -> Nodes:
        """Set their wall clocks ahead by this time, or behind: `1.2ttl`, `-500ms`. The experiment needs
        `clocks=True`."""
        return self._set_clock(WrongClock(self.names, ahead_ms=self._stage.step_ms(by)))

    def drift_clock(self, percent: float) -> Nodes:
        """Let their wall clocks run fast by this much, or slow if it is negative. The experiment needs
        `clocks=True`."""
        return self._set_clock(WrongClock(self.names, rate_percent=percent))

    def right_clock(self) -> Nodes:
        """Set their wall clocks right again."""
        if self._wrong is not None:
            self._stage.heal(self._wrong)
        self._wrong = None
        return self

    def follow(self, primary: str) -> Nodes:
        """From now on they are replicas of this node, and up to date. The experiment needs replication="manual"; it
        begins with all nodes as replicas of n1."""
        self._stage.tick()
        cluster = self._stage.cluster
        for link in self._links_to(primary):
            replication.follow(cluster.nodes[link[0]], cluster.nodes[primary], cluster.links[link].address)
        self._stage.say(f"{', '.join(self.names)} follow {primary}")
        return self

    def lose(self, primary: str) -> Nodes:
        """What this node writes from now on does not reach them: their replication is cut, nothing else."""
        self._stage.inject("partition", Partition("replication", "drop", "both", self._links_to(primary)))
        return self

    def promote(self) -> Nodes:
        """They are replicas no longer, and accept writes."""
        self._stage.tick()
        for name in self.names:
            replication.promote(self._stage.cluster.nodes[name])
        self._stage.say(f"{', '.join(self.names)} promoted")
        return self

    def _links_to(self, primary: str) -> tuple[LinkKey, ...]:
        """Raises UsageError for a link that the experiment does not have."""
        links = tuple((name, primary) for name in self.names)
        for link in links:
            if link not in self._stage.cluster.links:
                raise UsageError(
                    f"there is no link from {' to '.join(link)}; the experiment needs replication='manual'"
                )
        return links

    def _set_clock(self, fault: WrongClock) -> Nodes:
        self.right_clock()
        self._wrong = self._stage.inject("clock", fault)
        return self

    def _take_down(self, nemesis: str, fault: Fault) -> Nodes:
        if self._down is not None:
            raise UsageError(f"{','.join(self.names)} already went down; start them first")
        self._down = self._stage.inject(nemesis, fault)
        self._down_since = monotonic()
        return self


def _in_words(op: Op) -> str:
    if op.outcome != "ok":
        return f"{'refused' if op.outcome == 'fail' else 'unknown'}{f' ({op.error})' if op.error else ''}"
    if op.validity_ms is not None:
        return f"granted for {op.validity_ms:.0f} ms"
    if op.value is not None:
        return f"{op.value}"
    if op.f not in LOCK_STEPS and op.token is not None:
        return f"{op.token}"
    return "done"
