"""One server as a child process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from subprocess import Popen

from cluster import server_tree
from cluster.address import Address
from cluster.credentials import Access
from cluster.data_files import FolderStorage
from cluster.disk import Disk
from cluster.footprint import Footprint, footprint_of
from cluster.member_network import MemberNetwork
from cluster.persistence import Policy
from cluster.polling import ENDLESS, Patience
from cluster.ports import Ports, PortTakenError, is_listening
from cluster.programs import ServerProgram
from cluster.run_user import Owner
from cluster.server import Place
from cluster.server_node import Seen, ServerNode
from cluster.subprocesses import continue_child, end_child, is_stopped, look_at_child, spawn, stop_child
from fencepost.errors import BrokenEnvironmentError, InternalError

_FIRST_TRIES = 5
_READY_ASK_MS = 200.0


class ProcessNode(ServerNode):
    """`cluster.base.Node`. Its data, and nothing else of value, is in `folder`; the log outlives it."""

    def __init__(
        self,
        name: str,
        program: ServerProgram,
        folder: Path,
        log: Path,
        policy: Policy,
        access: Access,
        owner: Owner,
        environment: Mapping[str, str],
        patience: Patience = ENDLESS,
        network: MemberNetwork | None = None,
        member: str | None = None,
    ) -> None:
        """`network`: that of its group. `member`: in whose part of it the server is; None: in none."""
        super().__init__(name, program.server, policy, patience)
        self._access = access
        self._owner = owner
        self._program = program
        self._folder = folder
        self._log = log
        self._environment = environment
        self._network = network if member is not None else None
        self._member = member or name
        self._address: Address | None = None
        self._process: Popen[bytes] | None = None
        self._log_began = 0

    @property
    def address(self) -> Address:
        if self._address is None:
            raise InternalError(f"{self._name} has no address before the cluster was started")
        return self._address

    @property
    def pid(self) -> int | None:
        """Of the running (or paused) server; None when it is down."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def claim(self, address: Address) -> None:
        """Where to start the first time; it stays the same from then on."""
        self._address = address.behind(self._access.harness)

    def put_on(self, disk: Disk) -> None:
        super().put_on(disk)
        self._folder = disk.path

    def start_first(self, ports: Ports) -> None:
        """`start`, but a port that was taken in between is replaced by another one, because no client knows the address
        yet."""
        for _ in range(_FIRST_TRIES - 1):
            try:
                return self.start()
            except PortTakenError:
                self.claim(Address(self.address.host, ports.take(1)[0]))
        return self.start()

    def is_up(self, timeout_ms: float = 200) -> bool:
        return self.pid is not None and self._server.answers(self.address, timeout_ms)

    def footprint(self) -> Footprint | None:
        return None if (pid := self.pid) is None else footprint_of(pid, self._folder)

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _look(self, within_ms: float) -> Seen:
        return look_at_child(self._process, lambda: self._server.answers(self.address, within_ms))

    def _end(self) -> None:
        if self._process is not None:
            end_child(self._process)

    def _launch(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._owner.take(self._folder)
        members = {} if self._network is None else self._network.hosts
        place = Place(*self.address, ".", self._policy, self._access, self._name, members)
        for name, content in self._server.files(place).items():
            path = self._folder / name
            if path.exists():
                left = path.read_bytes()  # empty or zeros after a cut of power that came too soon
                content = self._server.reread(left) if left and b"\0" not in left else content
            elif path.parent != self._folder:
                path.parent.mkdir(mode=0o700)
                self._owner.take(path.parent)
            path.write_bytes(content)
            self._owner.take(path)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        arguments = self._server.arguments(place)
        self._log_began = self._log.stat().st_size if self._log.exists() else 0
        program, owner = self._program.path, self._owner
        if self._server.needs_tree:
            server_tree.plant(program, self._folder, owner)
            program, arguments = server_tree.command(program, self._folder, arguments, owner)
            owner = Owner(os.geteuid(), os.getegid())  # what becomes the owner is the last to start
        with nullcontext() if self._network is None else self._network.inside(self._member):
            self._process = spawn(
                program,
                arguments,
                owner=owner,
                folder=self._folder,
                log=self._log,
                environment=self._environment,
                files=None if self._clock is None else self._clock.files,
            )

    def _freeze(self) -> bool:
        return stop_child(self._started())

    def _wake(self) -> None:
        continue_child(self._started())

    def _is_running(self) -> bool:
        return self.pid is not None

    def _is_paused(self) -> bool:
        return self.pid is not None and is_stopped(self._pid())

    def _await_answer(self) -> None:
        process = self._started()
        within_s = self._answers_within_s
        if not self._comes_true(lambda: process.poll() is not None or self._is_ours(), "an answer", within_s):
            raise BrokenEnvironmentError(
                f"{self._name} at {self.address} does not answer; its last words: {self._last_words()}"
            )
        if process.poll() is None:
            return
        if is_listening(self.address):
            raise PortTakenError(f"{self._name} cannot start: its port {self.address.port} is taken by another program")
        raise self._ended_at_once(f" with {process.returncode}")

    def _is_ours(self) -> bool:
        """Whether it is ready, and is the process that we started: the port could have been taken meanwhile."""
        return self._server.answers(self.address, _READY_ASK_MS, self._pid())

    def _pid(self) -> int:
        return self._started().pid

    def _storage(self) -> FolderStorage:
        return FolderStorage(self._folder)

    def _recent_log(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_began)
            return log.read().decode(errors="replace")

    def _started(self) -> Popen[bytes]:
        if self._process is None:
            raise InternalError(f"{self._name} was never started")
        return self._process
