"""A node as a container: the verbs of `Node`, made idempotent, each returning only when its effect was seen.

The engine refuses to pause what is paused and to kill what is dead, so every verb first looks at the state, and looks
again when the engine refuses: another process may have been faster. The SDK's view of a container is a snapshot, so
each question goes to the engine again. A container outlives its server: its writable layer is the node's disk, which a
kill leaves as it was. A separate disk (`cluster.disk`) is mounted over that layer's data folder.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import PurePosixPath
from typing import ClassVar, Literal, TypeVar

from docker.errors import NotFound
from docker.models.containers import Container

from cluster.address import Address
from cluster.archive import archive_of
from cluster.base import RemovedError
from cluster.engine import ENGINE_ERRORS, inspected, words_of
from cluster.persistence import Policy
from cluster.polling import ENDLESS, VERB_LIMIT_S, Patience, becomes_true
from cluster.server import Server
from cluster.server_node import Seen, ServerNode
from cluster.subprocesses import is_gone
from fencepost.errors import BrokenEnvironmentError, InternalError

T = TypeVar("T")

_HALF_A_VERB_S = VERB_LIMIT_S / 2
_GLANCE_MS = 20.0


class ContainerStorage:
    """A folder of a container that need not run: `cluster.data_files.Storage`. Owners and modes stay as they are."""

    def __init__(self, container: Container, folder: str) -> None:
        """Its verbs raise what the engine's SDK raises."""
        self._container = container
        self._folder = PurePosixPath(folder)

    def read(self) -> Mapping[str, bytes]:
        return {name: content for name, (_, content) in self._members().items()}

    def write(self, files: Mapping[str, bytes]) -> None:
        members = self._members()
        changed = []
        for name, content in files.items():
            member = copy(members[name][0])
            member.name = name
            changed.append((member, content))
        self._container.put_archive(str(self._folder), archive_of(changed))

    def _members(self) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
        """By their names below the folder. The folder is the first entry of the archive: `data` for Docker, which calls
        its files `data/x`; for Podman an empty name, if it is a volume, and `/x`."""
        chunks, _ = self._container.get_archive(str(self._folder))
        found = {}
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            folder = archive.next()
            assert folder is not None
            for member in archive:
                if (content := archive.extractfile(member)) is not None:
                    name = member.name.removeprefix(folder.name).lstrip("/")
                    found[name] = member, content.read()
        return found


class ContainerNode(ServerNode):
    """A server in a container; see `cluster.base.Node` for what its verbs promise."""

    look_every_s: ClassVar[float] = 0.01

    def __init__(self, name: str, server: Server, policy: Policy, patience: Patience = ENDLESS) -> None:
        super().__init__(name, server, policy, patience)
        self._made: tuple[Container, Address] | None = None
        self._data_folder = ""
        self._known_pid: int | None = None

    @property
    def address(self) -> Address:
        return self._container_and_address()[1]

    def adopt(self, container: Container, address: Address, data_folder: str) -> None:
        """The container that this node is, from now on, the address that it will have whenever it runs, and where its
        data are in it."""
        self._made = container, address
        self._data_folder = data_folder

    def is_up(self, timeout_ms: float = 200) -> bool:
        """The address of a container that is down does not answer, not even with a refusal, so silence is not waited
        for when the engine says that nothing runs there."""
        if self._made is None:
            return False
        glance_ms = min(_GLANCE_MS, timeout_ms)
        if self._server.answers(self.address, glance_ms):
            return True
        left_ms = timeout_ms - glance_ms
        return left_ms > 0 and self._state() == "up" and self._server.answers(self.address, left_ms)

    def log_text(self) -> str:
        """The container's log, which the engine keeps over restarts."""
        return self._ask_engine("log", self._container.logs).decode(errors="replace")

    @property
    def _container(self) -> Container:
        return self._container_and_address()[0]

    def _container_and_address(self) -> tuple[Container, Address]:
        if self._made is None:
            raise InternalError(f"{self._name} has no container before the cluster was started")
        return self._made

    def _look(self, within_ms: float) -> Seen:
        answers = self._server.answers(self.address, min(_GLANCE_MS, within_ms))
        if not answers:
            if (state := self._state()) != "up":
                return state
            answers = self._server.answers(self.address, within_ms)
        if not answers:
            return "silent"
        return "down" if self._was_replaced() else "up"

    def _was_replaced(self) -> bool:
        """Whether the container was restarted from outside since the last time: it answers, but was down in between.
        Unknown, so no, where the engine's processes are not this host's."""
        known = self._known_pid
        if not known or not is_gone(known) or not self._verb.acquire(blocking=False):
            return False
        try:
            self._learn_pid()
        finally:
            self._verb.release()
        return True

    def _learn_pid(self) -> None:
        pid = self._pid()
        self._known_pid = None if is_gone(pid) else pid

    def _end(self) -> None:
        self._reach("kill", lambda: self._container.kill("SIGKILL"), lambda: not self._is_running())

    def _launch(self) -> None:
        self._ask_engine("start", self._container.start)

    def _freeze(self) -> bool:
        self._reach("pause", self._container.pause, self._is_paused)
        return True

    def _wake(self) -> None:
        self._reach("resume", self._container.unpause, lambda: not self._is_paused())

    def _is_running(self) -> bool:
        return self._is("Running")

    def _is_paused(self) -> bool:
        return self._is("Paused")

    def _await_answer(self) -> None:
        running = True

        def is_decided() -> bool:
            nonlocal running
            if self.is_up():
                return True
            running = self._is_running()
            return not running

        decided = self._comes_true(is_decided, "an answer", self._answers_within_s)
        if not running:
            raise self._ended_at_once()
        if not decided:
            raise BrokenEnvironmentError(
                f"{self._name} runs, but does not answer at {self.address} from this host; its container must be "
                "reachable at its own address (an engine on this Linux host), else use --cluster process"
            )
        self._learn_pid()

    def _pid(self) -> int:
        self._ask_engine("inspection", self._container.reload)
        return int(self._container.attrs["State"]["Pid"])

    def truncate(self, place: int) -> str:
        return self._ask_engine("change of files", lambda: super(ContainerNode, self).truncate(place))

    def forget(self) -> None:
        self._ask_engine("change of files", super().forget)

    def _storage(self) -> ContainerStorage:
        return ContainerStorage(self._container, self._data_folder)

    def _recent_log(self) -> str:
        return self.log_text()

    def _state(self) -> Literal["up", "stopped", "down", "gone"]:
        """Without touching the snapshot that a verb in another thread may be looking at."""
        try:
            state = self._ask_engine("inspection", lambda: inspected(self._container))
        except RemovedError:
            return "gone"
        return "down" if not state["Running"] else "stopped" if state["Paused"] else "up"

    def _is(self, flag: Literal["Running", "Paused"]) -> bool:
        """One of the flags of the container's state, as the engine has it now."""
        self._ask_engine("inspection", self._container.reload)
        return bool(self._container.attrs["State"][flag])

    def _reach(self, verb: str, act: Callable[[], object], holds: Callable[[], bool]) -> None:
        if holds():
            return
        try:
            self._ask_engine(verb, act)
        except BrokenEnvironmentError:
            if not holds():
                raise
        if not becomes_true(holds, within_s=_HALF_A_VERB_S, every_s=self.look_every_s):
            raise BrokenEnvironmentError(
                f"{verb} of {self._name} did not take: its container is {self._container.status} after "
                f"{_HALF_A_VERB_S:g} s"
            )

    def _ask_engine(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except NotFound as error:
            raise RemovedError(self._name) from error
        except ENGINE_ERRORS as error:
            raise BrokenEnvironmentError(f"{what} of {self._name} failed: {words_of(error)}") from error
