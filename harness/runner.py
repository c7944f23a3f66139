"""One run: bring up, start the clients, play the schedule, heal, take down, and leave a folder that can be judged."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns, sleep
from types import FrameType

from redis.exceptions import RedisError

from cluster.base import RESOURCE, Cluster
from cluster.lifetime import RunState
from cluster.programs import ServerProgram
from fencepost.errors import BrokenEnvironmentError, FencepostError
from harness.agenda import Agenda
from harness.clients import RESOURCE_TIMEOUT_MS, ClientSlot, await_ready
from harness.config import RunConfig
from harness.environment import describe_environment
from harness.history import ClientEnd, FaultEvent, Timeline
from harness.overhead import measure_overhead_us
from harness.report.progress import Progress, Snapshot
from harness.store import RunFolder
from nemesis.base import Topology, World
from nemesis.schedule import Schedule
from workloads.resource import RedisResource

_READY_TIMEOUT_S = 90
_START_MARGIN_NS = 100_000_000
_TICK_S = 0.02
_DRAIN_EVERY_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that was decided and checked before anything is started."""

    config: RunConfig
    schedule: Schedule
    server: ServerProgram
    backend: str
    open_cluster: Callable[[RunState, Path], Cluster]


class Interruption:
    """Whether the user asked to stop. Ctrl-C, SIGTERM or a closed terminal end the load; teardown is never
    interrupted.
    """

    def __init__(self) -> None:
        self.asked = False

    def __bool__(self) -> bool:
        return self.asked

    @contextmanager
    def watch(self) -> Iterator[Interruption]:
        def ask(_number: int, _frame: FrameType | None) -> None:
            self.asked = True

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def perform(prepared: Prepared, folder: RunFolder, state: RunState, progress: Progress) -> None:
    """Make the run. Raises FencepostError if the surroundings broke; the folder then holds what was recorded so far."""
    with Interruption().watch() as interruption:
        _Run(prepared, folder, state, progress, interruption).perform()


class _Run:
    def __init__(
        self, prepared: Prepared, folder: RunFolder, state: RunState, progress: Progress, interruption: Interruption
    ) -> None:
        self._prepared = prepared
        self._config = prepared.config
        self._folder = folder
        self._state = state
        self._progress = progress
        self._interruption = interruption
        self._slots: dict[str, ClientSlot] = {}
        self._timeline: Timeline | None = None
        self._accepted: Counter[str] = Counter()
        self._drained_at_ns = 0

    def perform(self) -> None:
        config = self._config
        with ExitStack() as stack:
            cluster = self._prepared.open_cluster(self._state, self._folder.logs)
            stack.callback(cluster.stop)
            self._show(f"bringing up {config.nodes} nodes ({self._prepared.backend})")
            cluster.start()
            overhead = measure_overhead_us(
                cluster.nodes["n1"].address, cluster.links[config.client_names[0], "n1"].address
            )
            resource = RedisResource(*cluster.resource.address, RESOURCE_TIMEOUT_MS)
            stack.callback(resource.close)
            nemesis_log = stack.enter_context(self._folder.nemesis_log())
            ends_log = stack.enter_context(self._folder.client_ends_log())
            writes_log = stack.enter_context(self._folder.resource_log())
            self._write_log = writes_log.extend
            self._resource = resource

            stack.callback(self._cut_off_all)
            self._start_clients(cluster, ends_log.append)
            lock = self._slots[config.client_names[0]].lock_description()
            self._folder.write_environment(describe_environment(cluster, lock, overhead, config.persistence))
            if self._interruption:
                self._folder.write_timeline(Timeline(start_ns=monotonic_ns(), interrupted=True))
                return
            self._load(cluster, nemesis_log.append)

    def _start_clients(self, cluster: Cluster, on_end: Callable[[ClientEnd], None]) -> None:
        self._show(f"starting {self._config.clients} clients")
        environment = os.environ | self._state.environment
        for name in self._config.client_names:
            self._slots[name] = ClientSlot(
                name, self._config, cluster.links, self._folder, self._state.path, environment, on_end
            )
            self._slots[name].start()
        await_ready(list(self._slots.values()), _READY_TIMEOUT_S, lambda: bool(self._interruption))

    def _load(self, cluster: Cluster, observe: Callable[[FaultEvent], None]) -> None:
        """Load with faults, heal, recovery, end. What broke on the way is raised after all was healed."""
        config = self._config
        start_ns = monotonic_ns() + _START_MARGIN_NS
        timeline = self._timeline = Timeline(start_ns=start_ns)
        self._folder.write_timeline(timeline)
        for slot in self._slots.values():
            slot.agree_start(start_ns)
        topology = Topology(config.client_names, config.node_names, config.ttl_ms)
        agenda = Agenda(self._prepared.schedule, World(cluster, self._slots, topology), observe)

        failure: FencepostError | None = None
        try:
            self._work_until(start_ns + int(config.duration_ms * 1e6), "load", agenda)
        except FencepostError as error:
            failure = error
        for heal in (agenda.heal_all, lambda: self._restore(cluster)):
            try:
                heal()
            except FencepostError as error:
                failure = failure or error
        timeline.healed_ns = monotonic_ns()
        timeline.interrupted = bool(self._interruption)
        self._folder.write_timeline(timeline)

        try:
            if failure is None:
                self._work_until(timeline.healed_ns + int(config.recovery_ms * 1e6), "recovery", None)
        except FencepostError as error:
            failure = error
        timeline.interrupted = bool(self._interruption)
        self._end_clients(timeline)
        self._show("reading the resource")
        self._final_read()
        if failure is not None:
            raise failure

    def _work_until(self, end_ns: int, phase: str, agenda: Agenda | None) -> None:
        """Play what is due and show how it goes, until the time is over or the user asks to stop."""
        timeline = self._timeline
        assert timeline is not None
        while (now_ns := monotonic_ns()) < end_ns and not self._interruption:
            now_ms = (now_ns - timeline.start_ns) / 1e6
            if agenda is not None:
                agenda.play(now_ms)
            for slot in self._slots.values():
                slot.reap()
            if now_ns - self._drained_at_ns > _DRAIN_EVERY_NS:
                self._drain()
            self._show(phase, agenda.active if agenda else ())
            due_ms = agenda.next_ms() if agenda else None
            left_s = (end_ns - monotonic_ns()) / 1e9
            if due_ms is not None:
                left_s = min(left_s, due_ms / 1e3 - (monotonic_ns() - timeline.start_ns) / 1e9)
            sleep(max(0.0, min(_TICK_S, left_s)))

    def _restore(self, cluster: Cluster) -> None:
        """Whatever the faults did, the nodes are up, the links are whole and no client stands still."""
        cluster.heal()
        for node in cluster.nodes.values():
            node.resume()
            node.start()
        for slot in self._slots.values():
            slot.resume()

    def _end_clients(self, timeline: Timeline) -> None:
        """Ask every client to end; cut off those that do not come back although everything is healed."""
        config = self._config
        timeline.stop_ns = monotonic_ns()
        for slot in self._slots.values():
            slot.agree_stop(timeline.stop_ns)
        self._folder.write_timeline(timeline)
        grace_ms = 2 * config.ttl_ms + min(config.hold.high_ms, 60_000) + 3_000
        deadline_ns = timeline.stop_ns + int(grace_ms * 1e6)
        while (waiting := [s for s in self._slots.values() if s.has_life()]) and monotonic_ns() < deadline_ns:
            for slot in waiting:
                with suppress(BrokenEnvironmentError):  # its end is on record, and the load is over
                    slot.reap()
            self._show("waiting for the clients to end")
            sleep(0.005)
        self._cut_off_all()
        timeline.end_ns = monotonic_ns()
        self._folder.write_timeline(timeline)

    def _cut_off_all(self) -> None:
        for slot in self._slots.values():
            slot.cut_off()

    def _drain(self) -> None:
        """Carry the newly accepted writes into the run's folder, so that little is lost if we are killed."""
        self._drained_at_ns = monotonic_ns()
        try:
            writes = self._resource.accepted_since(self._accepted.total())
        except RedisError as error:
            raise BrokenEnvironmentError(f"the resource does not answer: {error}; see logs/{RESOURCE}.log") from error
        for write in writes:
            self._accepted[write.key] += 1
            write.index = self._accepted[write.key]
        self._write_log(writes)

    def _final_read(self) -> None:
        self._drain()
        keys = [f"k{number}" for number in range(1, self._config.keys + 1)]
        try:
            self._folder.write_final({key: self._resource.read(key, None) for key in keys})
        except RedisError as error:
            raise BrokenEnvironmentError(f"the last read of the resource failed: {error}") from error

    def _show(self, phase: str, active: tuple[str, ...] = ()) -> None:
        timeline, config = self._timeline, self._config
        slots = list(self._slots.values())
        self._progress.update(
            Snapshot(
                phase=phase,
                elapsed_s=max(0.0, (monotonic_ns() - timeline.start_ns) / 1e9) if timeline else 0.0,
                total_s=(config.duration_ms + config.recovery_ms) / 1e3,
                ops=sum(slot.ops for slot in slots),
                sections=sum(slot.sections for slot in slots),
                active_faults=active,
                clients_alive=sum(slot.is_alive() for slot in slots),
            )
        )
