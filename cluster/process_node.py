"""One redis-server (or valkey-server) as a child process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from subprocess import Popen

from cluster import resp
from cluster.base import Address
from cluster.children import end_child, is_stopped, spawn, stop_child
from cluster.disk import Disk, no_disk
from cluster.persistence import Policy, config_mismatch, config_text, server_directives
from cluster.ports import Ports
from cluster.programs import ServerProgram
from cluster.waiting import VERB_LIMIT_S, becomes_true
from fencepost.errors import BrokenEnvironmentError, InternalError

_FIRST_TRIES = 5
_ASK_MS = 1_000.0
_READY_ASK_MS = 200.0


class ProcessNode:
    """`cluster.base.Node`. Its data, and nothing else of worth, is in `folder`; the log outlives it."""

    def __init__(
        self,
        name: str,
        program: ServerProgram,
        folder: Path,
        log: Path,
        policy: Policy,
        environment: Mapping[str, str],
    ) -> None:
        self._name = name
        self._program = program
        self._folder = folder
        self._disk: Disk | None = None
        self._log = log
        self._policy = policy
        self._environment = environment
        self._address: Address | None = None
        self._process: Popen[bytes] | None = None
        self._log_began = 0
        self._verb = threading.RLock()  # one verb at a time; `is_up` waits for nobody

    @property
    def name(self) -> str:
        return self._name

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
        """The address to start at the first time; the same from then on."""
        self._address = address

    def put_on(self, disk: Disk) -> None:
        """Keep the data on this disk, from the next start on."""
        self._disk, self._folder = disk, disk.path

    def start_first(self, ports: Ports) -> None:
        """`start`, but a port that was taken meanwhile is replaced by another one: nobody knows the address yet."""
        for _ in range(_FIRST_TRIES - 1):
            try:
                return self.start()
            except PortTakenError:
                self.claim(Address(self.address.host, ports.take(1)[0]))
        return self.start()

    def start(self) -> None:
        with self._verb:
            if self.pid is None:
                if self._disk is not None:
                    self._disk.restore()
                self._spawn()
            elif is_stopped(self._running().pid):
                raise BrokenEnvironmentError(f"{self._name} is paused and cannot be started; resume or kill it first")
            self._await_ready()

    def stop(self) -> None:
        with self._verb:
            if self.pid is None:
                return
            self._running().send_signal(signal.SIGCONT)
            half_s = VERB_LIMIT_S / 2
            try:
                (reply,) = resp.ask(self.address, ("SHUTDOWN",), timeout_ms=half_s * 1000)
            except OSError:
                pass  # as it should be: the connection ends with the server
            else:
                raise BrokenEnvironmentError(f"{self._name} refuses to shut down: {reply}")
            if not becomes_true(lambda: self.pid is None, within_s=half_s):
                raise BrokenEnvironmentError(f"{self._name} (process {self.pid}) does not end after SHUTDOWN")

    def kill(self) -> None:
        with self._verb:
            if self._process is not None:
                end_child(self._process)

    def cut_power(self) -> None:
        with self._verb:
            if self._disk is None:
                raise no_disk(self._name)
            # The disk first: a server that is still alive can only fail, and cannot promise what it has not on disk.
            self._disk.cut_power()
            self.kill()

    def pause(self) -> None:
        with self._verb:
            if self.pid is None or not stop_child(self._running()):
                raise BrokenEnvironmentError(f"{self._name} is down and cannot be paused; start it first")

    def resume(self) -> None:
        with self._verb:
            if self.pid is None or not is_stopped(self._running().pid):
                return
            self._running().send_signal(signal.SIGCONT)
            self._await_ready()

    def is_up(self, timeout_ms: float = 200) -> bool:
        return self.pid is not None and resp.answers_ping(self.address, timeout_ms)

    def effective_config(self) -> Mapping[str, str]:
        try:
            return resp.config(self.address, timeout_ms=_ASK_MS)
        except OSError as error:
            raise BrokenEnvironmentError(f"{self._name} does not tell its configuration: {error}") from error

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _running(self) -> Popen[bytes]:
        if self._process is None:
            raise InternalError(f"{self._name} was never started")
        return self._process

    def _spawn(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        directives = server_directives(
            bind=self.address.host, port=self.address.port, folder=str(self._folder), policy=self._policy
        )
        config = self._folder / "redis.conf"
        config.write_text(config_text(directives))
        self._log_began = self._log.stat().st_size if self._log.exists() else 0
        self._process = spawn(
            [self._program.path, config], folder=self._folder, log=self._log, environment=self._environment
        )

    def _await_ready(self) -> None:
        """Wait until *our* server answers, and check that it does to its data what it was told."""
        process = self._running()
        if not becomes_true(lambda: process.poll() is not None or self._is_ours()):
            raise BrokenEnvironmentError(
                f"{self._name} at {self.address} does not answer; its last words: {self._last_words()}"
            )
        if process.poll() is not None:
            words = self._last_words()
            if "in use" in words:
                raise PortTakenError(
                    f"{self._name} cannot start: its port {self.address.port} is taken by another program"
                )
            raise BrokenEnvironmentError(
                f"{self._name} ended at once with {process.returncode}; its last words: {words}"
            )
        try:
            effective = resp.config(self.address, timeout_ms=_ASK_MS)
        except OSError as error:
            raise BrokenEnvironmentError(f"{self._name} does not tell its configuration: {error}") from error
        if wrong := config_mismatch(self._policy, effective):
            raise BrokenEnvironmentError(f"{self._name} runs with another configuration than it was given: {wrong}")
        if self._disk is not None:
            self._disk.check_used_by(process.pid)

    def _is_ours(self) -> bool:
        """Whether PING is answered, and by the process that we started: the port could have been taken meanwhile."""
        try:
            pong, info = resp.ask(self.address, ("PING",), ("INFO", "server"), timeout_ms=_READY_ASK_MS)
        except OSError:
            return False
        return pong == "PONG" and f"process_id:{self._running().pid}\r\n" in str(info)

    def _last_words(self) -> str:
        """The last lines that the server logged since it was started, as one line."""
        with self._log.open("rb") as log:
            log.seek(self._log_began)
            lines = log.read().decode(errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-3:]) or "none"


class PortTakenError(BrokenEnvironmentError):
    """The server's port is taken by another program."""
