"""A node as a container: the verbs of `Node`, made idempotent, each returning only when its effect was seen.

The engine refuses to pause what is paused and to kill what is dead, so every verb first looks at the state, and looks
again when the engine refuses: somebody may have been faster. The SDK's view of a container is a snapshot, so each
question goes to the engine again. A container outlives its server: its writable layer is the node's disk, which a
kill leaves as it was. A separate disk (`cluster.disk`) is mounted over that layer's data folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, TypeVar

from docker.models.containers import Container

from cluster.base import Address
from cluster.engine import ENGINE_ERRORS, words_of
from cluster.persistence import Policy
from cluster.server import Server
from cluster.server_node import ServerNode
from cluster.waiting import VERB_LIMIT_S, becomes_true
from fencepost.errors import BrokenEnvironmentError, InternalError

T = TypeVar("T")

_HALF_A_VERB_S = VERB_LIMIT_S / 2
_GLANCE_MS = 20.0


class ContainerNode(ServerNode):
    """A server in a container; see `cluster.base.Node` for what its verbs promise."""

    look_every_s: ClassVar[float] = 0.01

    def __init__(self, name: str, server: Server, policy: Policy) -> None:
        super().__init__(name, server, policy)
        self._made: tuple[Container, Address] | None = None

    @property
    def address(self) -> Address:
        return self._container_and_address()[1]

    def adopt(self, container: Container, address: Address) -> None:
        """The container that this node is, from now on, and the address that it will have whenever it runs."""
        self._made = container, address

    def kill(self) -> None:
        with self._verb:
            self._reach("kill", lambda: self._container.kill("SIGKILL"), lambda: not self._is_running())

    def is_up(self, timeout_ms: float = 200) -> bool:
        """The address of a container that is down answers nobody, not even with a refusal, so silence is not waited for
        when the engine says that nothing runs there."""
        if self._made is None:
            return False
        glance_ms = min(_GLANCE_MS, timeout_ms)
        if self._server.answers(self.address, glance_ms):
            return True
        left_ms = timeout_ms - glance_ms
        return left_ms > 0 and self._runs() and self._server.answers(self.address, left_ms)

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

        decided = becomes_true(is_decided)
        if not running:
            raise self._ended_at_once()
        if not decided:
            raise BrokenEnvironmentError(
                f"{self._name} runs, but does not answer at {self.address} from this host; its container must be "
                "reachable at its own address (an engine on this Linux host), else use --cluster process"
            )

    def _pid(self) -> int:
        self._ask_engine("inspection", self._container.reload)
        return int(self._container.attrs["State"]["Pid"])

    def _recent_log(self) -> str:
        return self.log_text()

    def _runs(self) -> bool:
        """Whether it runs and is not paused, without touching the snapshot that a verb in another thread may be looking
        at."""
        client, name = self._container.client, str(self._container.id)
        assert client is not None
        state = self._ask_engine("inspection", lambda: client.api.inspect_container(name))["State"]
        return bool(state["Running"] and not state["Paused"])

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
        except ENGINE_ERRORS as error:
            raise BrokenEnvironmentError(f"{what} of {self._name} failed: {words_of(error)}") from error
