"""One run from beginning to end: brings everything up, lets a `Scenario` play (a schedule, or a script), heals, takes
everything down, and leaves a folder that can be judged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from time import monotonic_ns, sleep
from types import TracebackType
from typing import Protocol

import hiredis

from cluster.base import RESOURCE, CalledOffError, Cluster, NotInTimeError, RemovedError
from cluster.lifetime import StateFolder
from cluster.live_run import write_addresses
from cluster.parallel import at_once
from cluster.polling import Patience
from cluster.unix_socket import listener_of
from fencepost.errors import BrokenEnvironmentError, FencepostError
from fencepost.files import NO_SPACE, disk_error
from fencepost.history import HARNESS, PROXY, ClientEnd, FaultEvent, Timeline
from harness.run.clients import RESOURCE_TIMEOUT_MS, ClientSlot, start_all
from harness.run.database import Database
from harness.run.denials import read_denials
from harness.run.environment import describe_environment
from harness.run.fault_log import NEEDED, FaultLog
from harness.run.harness_heartbeat import pulse, watched_waits
from harness.run.interruption import Interruption
from harness.run.machine_clock import MachineClock
from harness.run.plan import Setup, topology_of
from harness.run.proxy_overhead import measure_overhead_us
from harness.run.redaction import redact
from harness.run.sealing import sealing
from harness.run.snapshot import Display, Snapshot
from harness.run.watch import Watch
from harness.run.witness import witness
from harness.store.run_folder import RunFolder
from nemesis.base import World
from nemesis.do_all import do_all
from workloads.control import NEVER_NS
from workloads.kinds import find_workload
from workloads.redis_resource import RedisResource
from workloads.registry import manifest_of

_READY_TIMEOUT_S = 90
_DRAIN_EVERY_NS = 500_000_000
_SHOW_EVERY_NS = 100_000_000
_HURRY_NS = 500_000_000
"""How long clients have to come back once the user asked to stop."""
_NO_ANSWER = (OSError, hiredis.ReplyError)
"""How a request to the resource fails."""
_HEAL_WITHIN_NS = 12_000_000_000
"""How long it may take to heal everything and to see that it is healed. A proxy that hundreds of clients keep busy may
not do it; then the run ends all the same, and it is unknown what a recovery would have shown."""


class StalledResourceError(BrokenEnvironmentError):
    """The resource did not answer: it was too slow, or its connection broke. It may still do."""


class _Problems:
    """What went wrong on the way, while the rest was done all the same; a context manager that collects it. `failure`:
    what aborts the run; `late`: what was not waited for any longer."""

    def __init__(self) -> None:
        self.failure: FencepostError | None = None
        self.late: NotInTimeError | None = None

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if isinstance(error, NotInTimeError):
            self.late = self.late or error
        elif isinstance(error, FencepostError):
            self.failure = self.failure or error
        return isinstance(error, FencepostError)


class Scenario(Protocol):
    """What happens to the running cluster and its clients between the start of the run and its heal."""

    def play(self, run: ActiveRun) -> None:
        """Do it. Calls `run.tick` at least every few hundred milliseconds, and returns soon once
        `run.interruption` says so. Raises FencepostError for what broke; then everything is healed first."""
        ...

    def heal(self) -> None:
        """Undo all active faults, and record that. Called once, even after an error."""
        ...


class ActiveRun:
    """One run's cluster, clients and record. `perform` is the whole run."""

    def __init__(
        self,
        setup: Setup,
        folder: RunFolder,
        state: StateFolder,
        display: Display,
        interruption: Interruption | None = None,
        *,
        make_client: type[ClientSlot] = ClientSlot,
        head_start_ns: int = 0,
    ) -> None:
        """`interruption`: one that others may ask to stop as well. `make_client`: the kind of slot that clients live
        in. `head_start_ns`: how long before the agreed start it is agreed."""
        self._setup = setup
        self.config = setup.config
        self.folder = folder
        self.slots: dict[str, ClientSlot] = {}
        self.interruption = Interruption() if interruption is None else interruption
        self._state = state
        self._display = display
        self._make_client = make_client
        self._head_start_ns = head_start_ns
        self._clock = MachineClock()
        self._patience = Patience(lambda: bool(self.interruption))
        self._heal_by_ns = NEVER_NS
        self._timeline: Timeline | None = None
        self._accepted: Counter[str] = Counter()
        self._drained_at_ns = 0
        self._shown_phase, self._shown_at_ns = "", 0

    def perform(self, scenario: Scenario) -> None:
        """Make the run. Raises FencepostError if the surroundings broke; the folder then holds what was recorded so
        far."""
        try:
            self._perform(scenario)
        except CalledOffError:
            self.folder.write_timeline(Timeline(start_ns=monotonic_ns(), interrupted=True))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise disk_error(error, self._state.path) from error

    def _perform(self, scenario: Scenario) -> None:
        config, folder = self.config, self.folder
        with self.interruption.watch(), sealing(folder), ExitStack() as stack:
            self._cluster = cluster = self._setup.open_cluster(self._state, folder.logs, folder.wire)
            stack.callback(redact, folder.logs, cluster.access)
            stack.callback(cluster.stop)
            self._show(f"bringing up {config.nodes} nodes ({self._setup.site.backend})")
            cluster.start(lambda: bool(self.interruption))
            write_addresses(self._state, cluster)
            self._go_on()
            overhead = measure_overhead_us(cluster.nodes["n1"], cluster.links[config.client_names[0], "n1"].address)
            self._resource = self._open_resource(cluster)
            stack.callback(self._resource.close)
            log = stack.enter_context(folder.nemesis_log())
            self._faults = FaultLog(log.append, cluster.links, config.client_names)
            ends_log = stack.enter_context(folder.client_ends_log())
            environment = os.environ | self._state.environment
            if self._setup.is_watched:
                folder.nodes.touch()
                stack.enter_context(witness(cluster.nodes.values(), folder.nodes, folder.witness_words, environment))
            self._write_log = stack.enter_context(folder.resource_log()).extend

            stack.callback(self._cut_off_all)
            self._start_clients(ends_log.append)
            self._go_on()
            lock = self.slots[config.client_names[0]].lock_description()
            facts = describe_environment(cluster, lock, overhead, config.persistence)
            manifest = manifest_of(config.lock, config.lock_command)
            told = {"manifest": manifest.described()} if manifest else {}
            folder.write_environment(facts | told | {"isolation": self._setup.isolation()})
            self._go_on()
            servers = [[part] for part in cluster.parts()]
            self._watch = stack.enter_context(Watch([*servers, list(self.slots.values())]))
            stack.enter_context(pulse(folder.beats_log(HARNESS)))
            stack.enter_context(watched_waits(listener_of(cluster.proxy_socket), folder.gaps_log(PROXY)))
            self._load(scenario)

    def _open_resource(self, cluster: Cluster) -> RedisResource | Database:
        """What keeps the data that the lock protects. Raises BrokenEnvironmentError."""
        tables, query = find_workload(self.config.workload).tables, self._setup.spec.server.server.query
        if tables is None or query is None:
            return RedisResource(*cluster.resource.address, cluster.access.clients, RESOURCE_TIMEOUT_MS)
        database = Database(query, cluster.nodes["n1"].address, RESOURCE_TIMEOUT_MS)
        database.make(tables)
        self._drained_at_ns = NEVER_NS
        return database

    @property
    def world(self) -> World:
        """What faults act upon."""
        config = self.config
        topology = topology_of(config)
        return World(self._cluster, self.slots, topology, lambda: bool(self.interruption), self._is_out_of_time)

    @property
    def observe(self) -> Callable[[FaultEvent], None]:
        """Records what was seen of a fault."""
        return self._faults.observe

    @property
    def elapsed_ms(self) -> float:
        """Since the agreed start; negative before it."""
        assert self._timeline is not None
        return (monotonic_ns() - self._timeline.start_ns) / 1e6

    def _go_on(self) -> None:
        """Asked between the steps of bring-up. Raises CalledOffError."""
        if self.interruption:
            raise CalledOffError("the run was interrupted before its load began")

    def tick(self, phase: str, active: tuple[str, ...] = ()) -> None:
        """The duties that must not wait: notice what failed, carry the resource's record away, show how it goes.
        Cheap enough to be called all the time."""
        for slot in self.slots.values():
            slot.reap()
        self._clock.check()
        self._notice()
        if monotonic_ns() - self._drained_at_ns > _DRAIN_EVERY_NS:
            with suppress(StalledResourceError):  # the watch says whether it is gone; what it accepted comes later
                self._drain()
        self._show(phase, active)

    def _notice(self) -> None:
        """Record what failed without the nemesis. Raises BrokenEnvironmentError if the run cannot go on without it."""
        sightings = self._watch.take()
        self._faults.notice(sightings)
        for seen in sightings:
            if seen.how == "gone":
                raise RemovedError(seen.part)
            if seen.how == "down" and seen.part in NEEDED:
                raise BrokenEnvironmentError(f"{NEEDED[seen.part]} ended while the run was on; see the run's logs/")
            if seen.how == "down" and self.config.nodes_at is not None and seen.part in self.config.node_names:
                raise BrokenEnvironmentError(
                    f"{seen.part} was restarted, got another role or evicted keys while the run was on: what a lock "
                    "lost there is not its own doing"
                )

    def _failing(self) -> tuple[str, ...]:
        return () if self._timeline is None else self._faults.failing

    def _start_clients(self, on_end: Callable[[ClientEnd], None]) -> None:
        self._show(f"starting {self.config.clients} clients")
        environment = os.environ | self._state.environment
        for name in self.config.client_names:
            self.slots[name] = self._make_client(
                name, self.config, self._cluster, self.folder, self._state.path, environment, on_end
            )
        start_all(list(self.slots.values()), _READY_TIMEOUT_S, lambda: bool(self.interruption))

    def _load(self, scenario: Scenario) -> None:
        """Start, act, heal, recovery, end. What broke on the way is raised after all was healed."""
        start_ns = monotonic_ns() + self._head_start_ns
        timeline = self._timeline = Timeline(start_ns=start_ns)
        self.folder.write_timeline(timeline)
        for slot in self.slots.values():
            slot.agree_start(start_ns)

        problems = _Problems()
        with problems:
            scenario.play(self)
        self._heal_by_ns = monotonic_ns() + _HEAL_WITHIN_NS
        with problems:
            scenario.heal()
        with problems:
            self._restore(starts_nodes=problems.late is None)
        timeline.interrupted = bool(self.interruption)
        if problems.late is None:
            timeline.healed_ns = monotonic_ns()
        else:
            timeline.unhealed = str(problems.late)
        self.folder.write_timeline(timeline)

        if timeline.healed_ns is not None and problems.failure is None:
            with problems:
                self._recover(timeline.healed_ns + int(self.config.recovery_ms * 1e6))
        timeline.interrupted = bool(self.interruption)
        self._end_clients(timeline, problems)
        self._show("reading the resource")
        with problems:  # what went wrong first is the reason of what goes wrong now
            self._final_read()
        if problems.failure is not None:
            raise problems.failure

    def _recover(self, end_ns: int) -> None:
        while (left_ns := end_ns - monotonic_ns()) > 0 and not self.interruption:
            self.tick("recovery")
            sleep(min(0.02, left_ns / 1e9))

    def _restore(self, *, starts_nodes: bool) -> None:
        """Whatever the faults did, no client stands still and the nodes are up. A node that is down because its leases
        were not awaited stays down: clients still work, and it might grant what it has forgotten."""
        do_all([slot.resume for slot in self.slots.values()])
        nodes = self._cluster.nodes.values()
        down = [node for node in nodes if node.was_taken_down()] if starts_nodes else []
        at_once([*(node.resume for node in nodes), *(node.start for node in down)])

    def _is_out_of_time(self) -> bool:
        """Whether nothing is awaited any more, be it that the user asked to stop or that healing took too long."""
        return self._patience.is_over() or monotonic_ns() > self._heal_by_ns

    def _end_clients(self, timeline: Timeline, problems: _Problems) -> None:
        """Ask every client to end; cut off the ones that do not come back in time. One that died is a problem."""
        config = self.config
        timeline.stop_ns = monotonic_ns()
        for slot in self.slots.values():
            slot.agree_stop(timeline.stop_ns)
        self.folder.write_timeline(timeline)
        grace_ms = 2 * config.ttl_ms + min(config.hold.high_ms, 60_000) + 3_000
        grace_ns = int(grace_ms * 1e6)
        while waiting := [slot for slot in self.slots.values() if slot.has_life()]:
            if monotonic_ns() >= self._end_of_patience(timeline.stop_ns, grace_ns):
                timeline.interrupted = bool(self.interruption)
                break
            for slot in waiting:
                with problems:  # the others are to end as ever
                    slot.reap()
            with problems:
                self._clock.check()
            with suppress(BrokenEnvironmentError):
                self._notice()
            self._show("waiting for the clients to end")
            sleep(0.005)
        self._cut_off_all()
        if denied := read_denials(self._cluster.nodes.values()):
            self.folder.write_denied(denied)
        timeline.end_ns = monotonic_ns()
        self.folder.write_timeline(timeline)

    def _end_of_patience(self, stop_ns: int, grace_ns: int) -> int:
        asked_ns = self.interruption.asked_ns
        return stop_ns + grace_ns if asked_ns is None else min(stop_ns + grace_ns, max(stop_ns, asked_ns) + _HURRY_NS)

    def _cut_off_all(self) -> None:
        for slot in self.slots.values():
            slot.cut_off()

    def _drain(self) -> None:
        """Carry the newly accepted writes into the run's folder, so that little is lost if we are killed."""
        self._drained_at_ns = monotonic_ns()
        try:
            writes = self._resource.accepted_since(self._accepted.total())
        except _NO_ANSWER as error:
            kind = StalledResourceError if isinstance(error, OSError) else BrokenEnvironmentError
            raise kind(f"the resource does not answer: {error}; see logs/{RESOURCE}.log") from error
        for write in writes:
            self._accepted[write.key] += 1
            write.index = self._accepted[write.key]
        self._write_log(writes)

    def _final_read(self) -> None:
        """The workload's last read and the resource's record, of one and the same moment: a last write of a client that
        was cut off may still be on its way through the proxy."""
        workload = find_workload(self.config.workload)
        self._drain()
        while True:
            known = self._accepted.total()
            try:
                values = workload.final(self._resource, dict.fromkeys([*self.config.key_names, *self._accepted]))
            except _NO_ANSWER as error:
                raise BrokenEnvironmentError(f"the last read of the resource failed: {error}") from error
            self._drain()
            if self._accepted.total() == known:
                break
        self.folder.write_final(values)

    def _show(self, phase: str, active: tuple[str, ...] = ()) -> None:
        """Every new phase, and otherwise at most ten times a second: hundreds of clients take a while to be asked."""
        now_ns = monotonic_ns()
        if phase == self._shown_phase and now_ns - self._shown_at_ns < _SHOW_EVERY_NS:
            return
        self._shown_phase, self._shown_at_ns = phase, now_ns
        config, slots = self.config, list(self.slots.values())
        self._display.update(
            Snapshot(
                phase=phase,
                elapsed_s=max(0.0, self.elapsed_ms / 1e3) if self._timeline else 0.0,
                total_s=(config.duration_ms + config.recovery_ms) / 1e3,
                ops=sum(slot.ops for slot in slots),
                sections=sum(slot.sections for slot in slots),
                active_faults=(*active, *self._failing()),
                clients_alive=sum(slot.is_alive() for slot in slots),
            )
        )
