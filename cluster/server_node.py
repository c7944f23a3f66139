"""The verbs of one server, written once: each looks at the state, acts, and returns when it has seen the new state.

A backend adds how its kind of server is launched, stopped, woken and looked at.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal

from cluster import data_files
from cluster.address import Address
from cluster.base import Condition, NotInTimeError
from cluster.data_files import DataFiles, FolderStorage, Storage
from cluster.disk import Disk, no_disk
from cluster.footprint import Footprint
from cluster.persistence import Policy
from cluster.polling import ENDLESS, VERB_LIMIT_S, Patience
from cluster.server import Refusal, Server, WriteErrors
from cluster.wall_clock import ClockAhead, ClockSetting, WallClock, no_clock
from fencepost.errors import BrokenEnvironmentError

ASK_MS = 1_000.0
"""How long a healthy server has to answer a question about itself."""

_LAST_LINES = 3

Wanted = Literal["up", "paused", "down"]
Seen = Literal["up", "stopped", "silent", "down", "gone"]


class ServerNode(ABC):
    """`cluster.base.Node`, all but the way to the server. One verb at a time; `is_up` does not wait."""

    look_every_s: ClassVar[float] = 0.002

    def __init__(self, name: str, server: Server, policy: Policy, patience: Patience = ENDLESS) -> None:
        """`patience`: how long its verbs wait for it."""
        self._name = name
        self._server = server
        self._policy = policy
        self._patience = patience
        self._disk: Disk | None = None
        self._clock: WallClock | None = None
        self._greet: Callable[[], None] | None = None
        self._verb = threading.RLock()
        self._wanted: Wanted | None = None
        """What the verbs made of it; None while one is at work, and before the first start."""
        self._was_up = False
        self._changes = 0
        self._cut: str | None = None
        """How its files were cut since it went down."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def server(self) -> Server:
        return self._server

    @property
    @abstractmethod
    def address(self) -> Address: ...

    def put_on(self, disk: Disk) -> None:
        """Keep the data on this disk, from the next start on."""
        self._disk = disk

    def give(self, clock: WallClock) -> None:
        """Run with this wall clock, from the next start on."""
        self._clock = clock

    def when_up(self, greet: Callable[[], None]) -> None:
        """What is done now, and whenever the server was started again, before clients may use it."""
        self._greet = greet
        greet()

    @property
    def clock(self) -> WallClock | None:
        """Its own wall clock; None if it has this machine's."""
        return self._clock

    def start(self) -> None:
        with self._becomes("up"):
            if self._is_paused():
                raise BrokenEnvironmentError(f"{self._name} is paused and cannot be started; resume or kill it first")
            if not self._is_running():
                if self._disk is not None:
                    self._disk.restore()
                self._cut = None
                self._launch()
            self._await_ready()
            if self._greet is not None:
                self._greet()

    def stop(self) -> None:
        with self._becomes("down"):
            if (shut_down := self._server.shut_down) is None:
                raise BrokenEnvironmentError(f"{self._name} runs {self._server.name}, which has no clean shutdown")
            if not self._is_running():
                return
            self._wake()
            shut_down(self.address, ASK_MS)
            if not self._comes_true(lambda: not self._is_running(), "the shutdown"):
                raise BrokenEnvironmentError(f"{self._name} does not end within {VERB_LIMIT_S:g} s of its shutdown")

    def kill(self) -> None:
        with self._becomes("down"):
            self._end()

    def cut_power(self) -> None:
        with self._becomes("down"):
            if self._disk is None:
                raise no_disk(self._name)
            # The server stands still first. An fsync that the cut overtakes may return without an error (ext4 on Linux
            # 6.18), and a server that goes on would promise what is not on its disk.
            if self._is_running() and not self._is_paused():
                self._freeze()
            self._disk.cut_power()
            self._end()

    def truncate(self, place: int) -> str:
        with self._verb:
            if self._cut is None and not self._is_running():
                self._cut = data_files.truncate(*self._kept(), place)
            return self._cut or ""

    def forget(self) -> None:
        with self._verb:
            if not self._is_running():
                data_files.forget(*self._kept())

    def pause(self) -> None:
        with self._becomes("paused"):
            if not self._is_running() or not self._freeze():
                raise BrokenEnvironmentError(f"{self._name} is down and cannot be paused; start it first")

    def resume(self) -> None:
        with self._verb:
            if self._wanted == "paused" and self._is_running():
                with self._becomes("up"):
                    self._wake()
                    self._await_ready()

    def refuse_writes(self, why: Refusal | None) -> None:
        with self._verb:
            if not self._is_running():
                return
            try:
                self._write_errors.refuse(self.address, why, ASK_MS)
            except OSError as error:
                raise NotInTimeError(f"{self._name} does not take its limits: {error}") from error

    def write_error(self, timeout_ms: float = 200) -> str | None:
        try:
            return self._write_errors.seen(self.address, timeout_ms)
        except OSError:
            return None

    @property
    def _write_errors(self) -> WriteErrors:
        if (errors := self._server.write_errors) is None:
            raise BrokenEnvironmentError(f"{self._name} runs {self._server.name}, which cannot refuse writes")
        return errors

    def set_clock(self, setting: ClockSetting) -> None:
        if self._clock is None:
            raise no_clock(self._name)
        self._clock.set(setting)

    def clock_ahead_ms(self, timeout_ms: float = ASK_MS) -> ClockAhead | None:
        if (read_clock := self._server.read_clock) is None:
            return None
        began_ns = time.time_ns()
        try:
            at_ns = read_clock(self.address, timeout_ms)
        except OSError:
            return None
        return ClockAhead((at_ns - time.time_ns()) / 1e6, (at_ns - began_ns) / 1e6)

    def footprint(self) -> Footprint | None:
        return None

    def was_taken_down(self) -> bool:
        return self._wanted == "down"

    def went_unasked(self) -> bool:
        with self._verb:
            return self._wanted in ("up", "paused") and not self._is_running()

    def condition(self, within_ms: float) -> Condition:
        wanted, changes = self._wanted, self._changes
        if wanted is None:
            return "changing"
        seen = self._look(within_ms)
        if self._changes != changes:
            return "changing"
        if seen == "gone":
            return seen
        if wanted == "up":
            return "as wanted" if seen == "up" else seen
        if seen == "down":
            return "as wanted" if wanted == "down" else "down"
        return "up" if seen == "up" or wanted == "down" else "as wanted"

    @abstractmethod
    def is_up(self, timeout_ms: float = 200) -> bool: ...

    def effective_config(self) -> Mapping[str, str]:
        """Asked when the server has just started, so it may take as long as the start itself."""
        try:
            return self._server.effective_config(self.address, 1_000 * VERB_LIMIT_S)
        except OSError as error:
            raise BrokenEnvironmentError(f"{self._name} does not report its configuration: {error}") from error

    @abstractmethod
    def log_text(self) -> str: ...

    @abstractmethod
    def _look(self, within_ms: float) -> Seen:
        """How the server is, while a verb may be at work in another thread."""

    @abstractmethod
    def _end(self) -> None:
        """SIGKILL, running, paused or dead already, and see that it has ended."""

    @abstractmethod
    def _launch(self) -> None:
        """Start a server that is down; whether it answers is awaited afterwards."""

    @abstractmethod
    def _freeze(self) -> bool:
        """Stop a running server in its tracks, paused or not, and see that it is; False if it ended instead."""

    @abstractmethod
    def _wake(self) -> None:
        """Let a running server continue, paused or not."""

    @abstractmethod
    def _is_running(self) -> bool:
        """Whether the server exists, paused or not."""

    @abstractmethod
    def _is_paused(self) -> bool: ...

    @abstractmethod
    def _await_answer(self) -> None:
        """Wait until *this* server answers. Raises BrokenEnvironmentError if it does not, or ends instead."""

    @abstractmethod
    def _pid(self) -> int:
        """The running server's process, as this host numbers it."""

    @abstractmethod
    def _recent_log(self) -> str:
        """What the server has logged of late, at least since it was last started."""

    @abstractmethod
    def _storage(self) -> Storage:
        """What it keeps, unless that is on a disk of its own."""

    def _kept(self) -> tuple[Storage, DataFiles]:
        if (data := self._server.data_files) is None:
            raise BrokenEnvironmentError(f"it is unknown in which files {self._server.name} keeps its keys")
        return FolderStorage(self._disk.path) if self._disk is not None else self._storage(), data

    @contextmanager
    def _becomes(self, wanted: Wanted) -> Iterator[None]:
        """One verb: what it makes of the server when it ends well. Otherwise the server is still to be what it was."""
        with self._verb:
            before, self._wanted = self._wanted, None
            self._changes += 1
            try:
                yield
                before = wanted
            finally:
                self._wanted = before
                self._changes += 1

    @property
    def _answers_within_s(self) -> float:
        """How long its start may take. No fault waits for the first one, which is a step of forming its group."""
        group = self._server.group
        return VERB_LIMIT_S if group is None or self._was_up else group.forms_within_s

    def _await_ready(self) -> None:
        """Wait until the server answers, and check that it treats its data as configured."""
        self._await_answer()
        self._was_up = True
        if wrong := self._server.config_mismatch(self._policy, self.effective_config()):
            raise BrokenEnvironmentError(f"{self._name} runs with another configuration than it was given: {wrong}")
        if self._disk is not None:
            self._disk.check_used_by(self._pid())

    def _comes_true(self, condition: Callable[[], bool], what: str, within_s: float = VERB_LIMIT_S) -> bool:
        """Whether it comes true within the time. Raises NotInTimeError if the run is called off meanwhile."""
        return self._patience.becomes_true(
            condition, f"{what} of {self._name}", within_s=within_s, every_s=self.look_every_s
        )

    def _ended_at_once(self, how: str = "") -> BrokenEnvironmentError:
        return BrokenEnvironmentError(f"{self._name} ended at once{how}; its last words: {self._last_words()}")

    def _last_words(self) -> str:
        """The last lines that the server logged, as one line."""
        lines = self._recent_log().strip().splitlines()
        return " / ".join(line.strip() for line in lines[-_LAST_LINES:]) or "none"
