"""A Dask cluster to make runs on: workers of our own on this machine, or an existing one anywhere.

An existing one is any cluster that has a scheduler (`dask worker`, Kubernetes, SLURM, SSH). How it is secured is its
owner's business: with `tls://…`, certificates are those of Dask's own configuration.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.interpreter_start import running
from harness.run.background import beside

if TYPE_CHECKING:
    from distributed import Client

_ANSWER_S: Final = 5.0
_COME_UP_S: Final = 60.0
_COME_DOWN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.2
AWAY_S: Final = 300.0
"""How long a scheduler may be away, or be without workers, before a campaign gives up."""
_QUIET: Final = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
}
"""Dask watches itself many times a second, for a dashboard that our own workers do not have. All that it needs of the
CPU is missing in the runs."""


@contextmanager
def local_cluster(count: int) -> Iterator[Client]:
    """So many workers on this machine, for as long as the block lasts. The client is closed at once when their
    scheduler dies, which does not come back. Raises BrokenEnvironmentError if they do not come up."""
    with _hub(count) as (address, hub):
        try:
            client = _client(address, _COME_UP_S)
            client.wait_for_workers(count, timeout=_COME_UP_S)
        except (OSError, TimeoutError) as error:
            raise BrokenEnvironmentError(f"the workers do not come up: {error}") from error
        with client, _when_it_ends(hub, client.close):
            yield client


def _when_it_ends(process: subprocess.Popen[bytes], call: Callable[[], object]) -> AbstractContextManager[None]:
    """Call it if the process ends before the block does."""

    def look(is_over: threading.Event) -> None:
        while not is_over.wait(_LOOK_EVERY_S):
            if process.poll() is not None:
                call()
                return

    return beside(look, "hub")


def count_workers(address: str) -> int:
    """How many workers the scheduler at this address, like `tcp://10.0.0.1:8786`, has now. Raises UsageError if none
    answers there, or if the certificates for it are not there."""
    if address.startswith("tls://") and (why := _why_no_certificates()):
        raise UsageError(f"--scheduler {address}: {why}")
    try:
        with _client(address, _ANSWER_S) as client:
            return len(present_at(client) or ())
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        words = str(error).partition("\n")[0]
        raise UsageError(f"--scheduler {address}: no Dask scheduler answers there ({words})") from error


def _why_no_certificates() -> str:
    """What Dask's configuration lacks for a connection with TLS, of which Dask itself says neither option nor file."""
    import dask.config
    import distributed  # noqa: F401  # it adds its own part of the configuration

    for option in ("ca-file", "client.cert", "client.key"):
        name = f"distributed.comm.tls.{option}"
        if not (path := dask.config.get(name, default=None)):
            return f"tls:// needs certificates, and Dask's configuration has no {name}"
        if not os.access(path, os.R_OK):
            return f"the file that {name} in Dask's configuration names cannot be read: {path}"
    return ""


def present_at(client: Client) -> dict[str, str] | None:
    """The addresses of the workers that are there now, and their names; None while the scheduler is away.

    Not by `Client.scheduler_info`: between its answer and its return, a look of Dask's own, which asks for no workers,
    may put an answer without any in its place. Then all would seem gone, and their runs would be made again."""
    if client.status != "running" or client.scheduler is None:
        return None
    try:
        found = client.sync(client.scheduler.identity)  # type: ignore[no-untyped-call]
    except OSError:
        return None
    return {address: str(info["name"]) for address, info in found["workers"].items()}


@contextmanager
def cluster_at(address: str) -> Iterator[Client]:
    """The cluster of this scheduler, which may be restarted meanwhile. Raises BrokenEnvironmentError."""
    try:
        client = _client(address, AWAY_S)
    except (OSError, TimeoutError) as error:
        raise BrokenEnvironmentError(f"the scheduler at {address} does not answer any more: {error}") from error
    with client:
        yield client


def _client(address: str, timeout_s: float) -> Client:
    from distributed import Client

    for name in ("distributed", "distributed.client"):  # what matters of it becomes a line of ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return Client(address, timeout=timeout_s)  # type: ignore[no-untyped-call]


@contextmanager
def _hub(count: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Where the scheduler of these workers listens, and its process."""
    path = os.pathsep.join(each for each in sys.path if each)
    with TemporaryFile() as printed:
        hub = subprocess.Popen(
            running("harness.campaign.scheduler_process", str(count)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            start_new_session=True,
            env={**_QUIET, **os.environ, "PYTHONPATH": path},
        )
        assert hub.stdin is not None
        assert hub.stdout is not None
        try:
            if not (address := hub.stdout.readline().decode().strip()):
                printed.seek(0)
                last = printed.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise BrokenEnvironmentError(f"the workers do not come up: {last}")
            yield address, hub
        finally:
            hub.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                hub.wait(_COME_DOWN_S)
            hub.kill()
            hub.wait()
            hub.stdout.close()
