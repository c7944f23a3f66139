"""Dask clusters for tests: a scheduler and workers that are somebody else's, in one network or in several."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cluster.polling import becomes_true
from fencepost.files import matching
from tests.harness import runs

_KEPT: Final = "dask-scratch-space/worker-*/fencepost-run-*"
"""Where a worker keeps a run for the command."""


class Network:
    """A network with nothing in it but its loopback, which has `address` too, for as long as `stack` lasts."""

    def __init__(self, stack: ExitStack, address: str) -> None:
        self.address = address
        script = 'ip link set lo up && ip addr add "$0" dev lo && echo up && exec cat'
        holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", script, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._pid = stack.enter_context(holder).pid
        stack.callback(holder.kill)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        self.before: Sequence[str] = ["nsenter", f"--net=/proc/{self._pid}/ns/net"]
        """A command that starts another one there."""

    def link(self, other: Network, name: str) -> None:
        """Let each of both reach the other one's address; nobody beyond it."""
        self._ip("link", "add", name, "type", "veth", "peer", "name", name, "netns", str(other._pid))
        for one, another in ((self, other), (other, self)):
            one._ip("link", "set", name, "up")
            one._ip("route", "add", another.address, "dev", name, "src", one.address)

    def _ip(self, *words: str) -> None:
        subprocess.run([*self.before, "ip", *words], check=True)


class Cluster:
    """A scheduler and its workers, each a process with a session of its own."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        protocol: str = "tcp",
        network: Network | None = None,
        secured: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`network`: the scheduler's, if not this one. `secured`: Dask's configuration of its certificates, if it needs
        some."""
        self._folder = folder
        self._stack = stack
        self._protocol = protocol
        self._network = network
        self._secured = secured
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = self._start_scheduler("0")

    def restart(self) -> None:
        """Kill the scheduler and start one that knows nothing at the same address."""
        self.kill("scheduler")
        self._processes.pop("scheduler").wait()
        again = self._start_scheduler(self.address.rpartition(":")[2])
        assert again == self.address

    def add(self, name: str, before: Sequence[str] = (), network: Network | None = None, **environment: str) -> None:
        """Returns when the scheduler knows the worker. `before`: a command that starts the worker. `network`: the
        worker's, if not this one."""
        own = self.folder(name)
        (own / "tmp").mkdir(parents=True)
        words = ["worker", self.address, "--name", name, "--nthreads", "2", "--no-nanny", "--local-directory", str(own)]
        self._start(name, *words, before=before, network=network, TMPDIR=str(own / "tmp"), **environment)
        log = self._folder / f"{name}.log"
        assert becomes_true(lambda: "Registered to" in log.read_text(), within_s=60), log.read_text()

    def add_on_a_full_disk(self, name: str, free_kb: int) -> None:
        """A worker whose folder is on a small disk of its own, which nobody else sees and which ends with it. There is
        room for temporary files: a server that meets the full disk first would end the run in words of its own."""
        small, roomy = f'mount -t tmpfs -o size={free_kb}k none "$0"', 'mount -t tmpfs none "$0/tmp"'
        script = f'{small} && mkdir "$0/tmp" && {roomy} && exec "$@"'
        self.add(name, before=["unshare", "-m", "sh", "-c", script, str(self.folder(name))])

    def folder(self, name: str) -> Path:
        return self._folder / name

    def kill(self, name: str) -> None:
        os.killpg(self._processes[name].pid, signal.SIGKILL)

    def has_ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def has_begun(self, name: str) -> bool:
        """Whether a run is under load on this worker."""
        return bool(matching(self.folder(name), f"{_KEPT}/2*/timeline.json"))

    def has_nothing_left(self, name: str) -> bool:
        """Whether no file of a run is left on this worker, be it kept for the command or temporary."""
        folder = self.folder(name)
        return not [*matching(folder, _KEPT), *matching(folder, "tmp/fencepost-*/2*")]

    def _start_scheduler(self, port: str) -> str:
        """Returns its address."""
        (file := self._folder / "scheduler.json").unlink(missing_ok=True)
        words = ["--protocol", self._protocol, "--port", port, "--scheduler-file", str(file)]
        self._start("scheduler", "scheduler", *words, network=self._network)
        assert becomes_true(lambda: file.exists() and bool(file.read_text()), within_s=60)
        return str(json.loads(file.read_text())["address"])

    def _start(
        self,
        process: str,
        *words: str,
        before: Sequence[str] = (),
        network: Network | None = None,
        **environment: str,
    ) -> None:
        host = network.address if network else "127.0.0.1"
        there = network.before if network else ()
        started = self._stack.enter_context(
            subprocess.Popen(
                [*there, *before, sys.executable, "-m", "dask", *words, "--host", host, "--no-dashboard"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self._folder / f"{process}.log").open("ab"),
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": str(runs.ROOT)} | dict(self._secured) | environment,
            )
        )
        self._stack.callback(started.kill)
        self._processes[process] = started
