"""The client processes: spawned fresh, each the leader of a process group that its foreign library belongs to."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import ClassVar

import msgspec
import psutil

from cluster.address import Address
from cluster.base import RESOURCE, Cluster, Condition
from cluster.polling import becomes_true
from cluster.subprocesses import wants_processor
from cluster.wall_clock import ClockAhead, ClockSetting, no_clock
from fencepost.errors import BrokenEnvironmentError
from fencepost.files import on_disk
from fencepost.history import ClientEnd, task_names
from fencepost.interpreter_start import running
from harness.config import RunConfig
from harness.run.client_clock import ClientClock
from harness.store.run_folder import RunFolder
from nemesis.base import Step
from workloads.base import NodeAddress
from workloads.client import ClientSpec, ResourceAddress, TaskSpec
from workloads.control import NEVER_NS, Control, State
from workloads.secrecy import hidden

STATES_OF: Mapping[Step, frozenset[State]] = {
    "inside": frozenset({State.INSIDE, State.EXTENDING, State.REENTERING, State.LEAVING}),
    "acquiring": frozenset({State.ACQUIRING, State.REENTERING}),
    "extending": frozenset({State.EXTENDING, State.REENTERING, State.LEAVING}),
    "releasing": frozenset({State.RELEASING, State.LEAVING}),
}
RESOURCE_TIMEOUT_MS = 2_000
"""How long a client waits for the resource. Long, because the resource is not what is being tested."""


STARTING_AT_ONCE = 16
_CLOCKS_FOLDER = "client-clocks"


class ClientSlot:
    """One client name and the process that lives in it now; implements `nemesis.base.Client`.

    A killed client may be restarted: another life in the same slot, with the same links and its own log. Faults kill
    and restart it in threads of their own, one verb at a time, so that it is not taken for one that died by itself.
    What it says of itself may be read by any thread at any time.
    """

    RESOURCE_TIMEOUT_MS: ClassVar[float] = RESOURCE_TIMEOUT_MS

    def __init__(
        self,
        name: str,
        config: RunConfig,
        cluster: Cluster,
        folder: RunFolder,
        scratch: Path,
        environment: Mapping[str, str],
        on_end: Callable[[ClientEnd], None],
    ) -> None:
        self.name = name
        self._config = config
        self._cluster = cluster
        self._folder = folder
        self._scratch = scratch
        self._environment = environment
        self._on_end = on_end
        self._life = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks = task_names(name, config.users_per_client)
        self._controls: dict[str, Control] = {}
        self._pipes: tuple[int, int] | None = None
        self._past_ops = 0
        self._sections = dict.fromkeys(self._tasks, 0)
        self._start_ns = 0
        self._stop_ns = NEVER_NS
        self._verb = threading.RLock()
        self._should_stand = False
        self._resumed_ns = 0
        self._clock: ClientClock | None = None

    @property
    def ops(self) -> int:
        """Operations recorded so far, over all lives."""
        return self._past_ops + sum(control.ops for control in self._controls.values())

    @property
    def sections(self) -> int:
        """Sections entered so far, over all lives."""
        controls = self._controls
        return sum(
            max(past, controls[task].sections if task in controls else 0) for task, past in self._sections.items()
        )

    @property
    def states(self) -> Collection[State]:
        """What its tasks say that they are doing, of which there is one as a rule."""
        return [control.state for control in self._controls.values()] or [State.STARTING]

    def is_ready(self) -> bool:
        """Whether it has opened its lock."""
        return State.STARTING not in self.states

    def start(self) -> None:
        """Spawn the process; returns immediately. The process waits for the agreed start, or starts immediately if that
        has passed."""
        with self._verb:
            self._spawn()

    def _spawn(self) -> None:
        if self._config.clocks and self._clock is None:
            self._clock = ClientClock(self._scratch / _CLOCKS_FOLDER / self.name, self._environment)
            self._environment = self._clock.environment
        self._life += 1
        self._should_stand = False
        stem = f"{self.name}.{self._life}"
        self._controls = {task: self._control(task) for task in self._tasks}
        tasks = tuple(map(self._task, self._tasks))
        config = self._config
        notes_senders = len(tasks) > 1 and config.wire == "on"
        spec = ClientSpec(
            seed=f"{config.seed}:{stem}",
            options=config,
            nodes=[self._dialled(node) for node in config.node_names],
            sentinels=[self._dialled(sentinel) for sentinel in config.sentinel_names],
            resource=self._dialled_resource(),
            resource_timeout_ms=self.RESOURCE_TIMEOUT_MS,
            lock_log=str(self._folder.logs / f"{stem}.lock.log"),
            tasks=tasks,
            description=str(self._scratch / f"{stem}.lock.json"),
            gaps=str(self._folder.gaps_log(self.name, self._life)),
            beats=str(self._folder.beats_log(self.name, self._life)),
            senders=str(self._folder.senders_log(self.name, self._life)) if notes_senders else None,
            life=self._life,
            pipes=self._pipes,
        )
        spec_path = self._scratch / f"{stem}.spec.json"
        with on_disk(spec_path):
            spec_path.write_bytes(msgspec.json.encode(spec))
        try:
            with self._log_path().open("ab") as log:
                self._process = subprocess.Popen(
                    running("workloads.client", str(spec_path)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=self._pipes or (),
                    start_new_session=True,
                    env=dict(self._environment),
                )
        except OSError as error:
            raise BrokenEnvironmentError(f"client {self.name} cannot be started: {error.strerror}") from error

    def _control(self, task: str) -> Control:
        """A fresh control block for the life that begins."""
        path = self._control_path(task)
        with on_disk(path):
            control = Control.create(path)
        control.start_ns, control.stop_ns = self._start_ns, self._stop_ns
        return control

    def _control_path(self, task: str) -> Path:
        return self._scratch / f"{task}.{self._life}.control"

    def _task(self, name: str) -> TaskSpec:
        """What one task needs in the life that begins."""
        stem, folder, config = f"{name}.{self._life}", self._folder, self._config
        return TaskSpec(
            name=name,
            seed=f"{config.seed}:{stem}",
            first_section=self._sections[name] + 1,
            history=str(folder.client_log(name, self._life)),
            control=str(self._control_path(name)),
        )

    def agree_start(self, at_ns: int) -> None:
        self._start_ns = at_ns
        for control in self._controls.values():
            control.start_ns = at_ns

    def agree_stop(self, at_ns: int) -> None:
        """No section begins after this moment."""
        self._stop_ns = at_ns
        for control in self._controls.values():
            control.stop_ns = at_ns

    def is_at(self, step: Step) -> bool:
        return any(state in STATES_OF[step] for state in self.states) and self.is_alive()

    def keys_at(self, step: Step) -> Set[int]:
        return {control.key for control in self._controls.values() if control.state in STATES_OF[step]}

    def is_alive(self) -> bool:
        process = self._process
        return process is not None and process.poll() is None

    def has_life(self) -> bool:
        """Whether a process was started whose end has not been recorded yet."""
        return self._process is not None

    def pause(self) -> None:
        with self._verb:
            if self._process is None or not self.is_alive():
                return
            self._signal(signal.SIGSTOP)
            if not becomes_true(lambda: self._group_states() <= {psutil.STATUS_STOPPED}, within_s=5, every_s=0.0005):
                raise BrokenEnvironmentError(f"client {self.name} was not seen stopped within 5 s of the signal")
            self._should_stand = True

    def resume(self) -> None:
        with self._verb:
            self._should_stand = False
            if self._process is not None and self.is_alive():
                self._signal(signal.SIGCONT)
                self._resumed_ns = monotonic_ns()

    def is_paused(self) -> bool:
        return self.is_alive() and self._group_states() == {psutil.STATUS_STOPPED}

    def condition(self, within_ms: float) -> Condition:
        """Whether its heart beats, unless it was paused. `cluster.base.Part`, as a client is one too."""
        if not self._verb.acquire(blocking=False):
            return "changing"
        try:
            if not self.is_alive() or State.STARTING in self.states:
                return "as wanted"  # how it ends, and whether it comes up, is looked after elsewhere
            if self._should_stand:
                return "as wanted" if self.is_paused() else "up"
            beat_ns = next(iter(self._controls.values())).beat_ns
            late_ns = monotonic_ns() - max(beat_ns, self._resumed_ns)
            if self._is_done() or late_ns <= within_ms * 1e6:
                return "as wanted"
            if self.is_paused():
                return "stopped"
            return "starved" if self._process and wants_processor(self._process.pid) else "silent"
        finally:
            self._verb.release()

    def kill(self) -> None:
        with self._verb:
            if self._process is not None:
                self._end("killed")

    def restart(self) -> None:
        with self._verb:
            if not self.is_alive() and monotonic_ns() < self._stop_ns:
                self.start()

    def set_clock(self, setting: ClockSetting) -> None:
        if self._clock is None:
            raise no_clock(self.name)
        self._clock.set(setting)

    def clock_ahead_ms(self, timeout_ms: float = 1_000) -> ClockAhead | None:
        """The client is not waited for, so `timeout_ms` does not matter."""
        try:
            return None if self._clock is None else self._clock.ahead(process.pid for process in self._group())
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # one has ended just now
            return None

    def reap(self) -> None:
        """Record the end of a process that ended on its own. Raises BrokenEnvironmentError if it failed."""
        with self._verb:
            process = self._process
            if process is None or process.poll() is None:
                return
            finished = process.returncode == 0 and self._is_done()
            self._end("finished" if finished else "died")
        if not finished:
            raise BrokenEnvironmentError(f"client {self.name} died ({_how(process.returncode)}): {self._last_words()}")

    def cut_off(self) -> None:
        """End a process that did not come back in time."""
        with self._verb:
            if self._process is not None:
                self._end("finished" if self._is_done() and not self.is_alive() else "cut-off")

    def lock_description(self) -> dict[str, object]:
        """What the lock said about itself when it was opened; empty before that."""
        path = self._scratch / f"{self.name}.{self._life}.lock.json"
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object]) if path.is_file() else {}

    def _address(self, server: str) -> Address:
        """Of this client's own link to the server."""
        return self._cluster.links[self.name, server].address

    def _dialled(self, node: str) -> NodeAddress:
        """`node`: one of the lock's, or a sentinel."""
        (host, port), password = self._address(node), self._cluster.access.clients
        server = (self._cluster.nodes.get(node) or self._cluster.sentinels[node]).server
        known_as = self._cluster.addresses[node]
        return NodeAddress(host, port, server.url(host, port, password), password, (known_as.host, known_as.port))

    def _dialled_resource(self) -> ResourceAddress:
        return ResourceAddress(*self._address(RESOURCE), self._cluster.access.clients)

    def _end(self, how: str) -> None:
        """Make sure that the whole group is gone, and record when and how. Its control blocks are not closed: another
        thread may be reading them, and they are unmapped when none does any more."""
        process, controls = self._process, self._controls
        assert process is not None
        self._signal(signal.SIGKILL)
        process.wait(timeout=10)
        self._process, self._controls = None, {}
        gone_ns = monotonic_ns()
        for task, control in controls.items():
            state = control.state
            end = ClientEnd(
                client=task,
                life=self._life,
                how=how,  # type: ignore[arg-type]
                at_ns=control.since_ns if how == "finished" else gone_ns,
                under_way=None if how == "finished" else state.name.lower(),
                error=self._last_words() if how == "died" else None,
                ops=control.ops,
                since_ns=None if how == "finished" else control.since_ns,
            )
            self._past_ops += control.ops
            self._sections[task] = max(self._sections[task], control.sections + (state is State.ACQUIRING))
            self._on_end(end)

    def _is_done(self) -> bool:
        return set(self.states) == {State.DONE}

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def _group_states(self) -> set[str]:
        """The states of the client and of its foreign library; of what has died nothing is said."""
        states = set[str]()
        with suppress(psutil.NoSuchProcess):
            states.update(process.status() for process in self._group())
        return states - {psutil.STATUS_ZOMBIE}

    def _group(self) -> Iterator[psutil.Process]:
        """The processes of the client and of its foreign library. Raises psutil.NoSuchProcess."""
        if self._process is not None:
            leader = psutil.Process(self._process.pid)
            yield leader
            yield from leader.children(recursive=True)

    def _log_path(self) -> Path:
        return self._folder.logs / f"{self.name}.{self._life}.log"

    def _last_words(self) -> str:
        try:
            said = hidden(self._log_path().read_bytes(), self._cluster.access.clients)
            lines = said.decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else f"it said nothing (see {self._log_path()})"


def _how(returncode: int) -> str:
    return f"by {signal.Signals(-returncode).name}" if returncode < 0 else f"exit code {returncode}"


def start_all(slots: Sequence[ClientSlot], timeout_s: float, called_off: Callable[[], bool]) -> None:
    """Start every client, a few at a time, and wait until all have opened their locks. Hundreds that start together
    would keep each other from connecting in time. Errors are those of `await_ready`."""
    for at in range(0, len(slots), STARTING_AT_ONCE):
        if called_off():
            return
        some = slots[at : at + STARTING_AT_ONCE]
        for slot in some:
            slot.start()
        await_ready(some, timeout_s, called_off)


def await_ready(slots: Sequence[ClientSlot], timeout_s: float, called_off: Callable[[], bool]) -> None:
    """Wait until every client has opened its lock. Raises BrokenEnvironmentError for one that dies or is too slow."""
    deadline = monotonic() + timeout_s
    while waiting := [slot for slot in slots if not slot.is_ready()]:
        for slot in waiting:
            slot.reap()
        if called_off():
            return
        if monotonic() > deadline:
            names = ", ".join(slot.name for slot in waiting)
            raise BrokenEnvironmentError(f"clients {names} were not ready within {timeout_s:g} s; see the run's logs/")
        sleep(0.005)
