"""What runs in a Dask worker: it has one process that makes runs, passes orders on to it and shows how it goes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from dask.typing import Key
from distributed import Worker, get_worker
from distributed.core import Status

from fencepost.errors import BrokenEnvironmentError, FencepostError
from fencepost.files import on_disk
from harness.campaign.equipment import Equipment, equipment, itself
from harness.campaign.one_run import Made, Order, config_of
from harness.campaign.player_process import PlayerDiedError, PlayerProcess
from harness.run.messages import Failed, encode
from harness.run.snapshot import Snapshot
from harness.store.archive import pack
from harness.store.run_folder import RunFolder

TOPIC: Final = "fencepost"
"""Under which a worker shows how its run goes: (its name, cell, seed, phase, seconds, of seconds)."""
_LOOK_EVERY_S: Final = 0.05

_player = PlayerProcess()
_playing = threading.Lock()
"""A worker with several threads makes one run at a time all the same."""
_under_way: Final = set[Key]()


class Refused(msgspec.Struct, frozen=True, tag=True):
    """This worker cannot make the run as the others do: `why`, in one line."""

    why: str


def play(order: bytes, limit_s: float, wanted: bytes) -> tuple[bytes, bytes]:
    """Make a run, an `Order`, with the `Equipment` that is wanted. What became of it, a `Made` or a `Refused`, and the
    run folder, packed, if the order names no folder for it. Raises PlayerDiedError; then it can be tried again.

    When Dask no longer wants the result, because it was cancelled or its client is gone, the run is taken
    down.
    """
    asked = msgspec.json.decode(order, type=Order)
    worker = get_worker()
    key = worker.get_current_task()

    def shown(now: Snapshot) -> None:
        said = [str(worker.name), asked.cell, asked.seed, now.phase, now.elapsed_s, now.total_s]
        worker.log_event(TOPIC, said)

    def is_unwanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled" or worker.status is not Status.running

    with _playing:
        _under_way.add(key)
        try:
            if is_unwanted():
                return encode(Made()), b""
            if why := why_not(asked, msgspec.json.decode(wanted, type=Equipment)):
                return encode(Refused(why)), b""
            with _place(asked, worker) as results:
                made = _player.play(msgspec.structs.replace(asked, results=results), limit_s, shown, is_unwanted)
                parcel = b"" if asked.results else _packed(made, results)
                return encode(made), parcel
        except BrokenEnvironmentError as error:
            if isinstance(error, PlayerDiedError):
                raise
            return encode(Made(failure=Failed.of(error))), b""
        finally:
            _under_way.discard(key)


async def rest(keys: list[Key]) -> None:
    """Wait until none of these is under way, and end the process that makes runs unless another's is."""
    while _under_way.intersection(keys):
        await asyncio.sleep(_LOOK_EVERY_S)
    if _playing.acquire(blocking=False):
        try:
            await asyncio.to_thread(_player.end)
        finally:
            _playing.release()


def why_not(asked: Order, wanted: Equipment) -> str:
    """Why this machine cannot make the run as the others do; empty if it can. Another fencepost may not even know the
    options of the run, so its version is looked at first."""
    if why := "; ".join(wanted.differences(itself())):
        return why
    try:
        config = config_of(asked.script, asked.words)
        return "; ".join(wanted.differences(equipment((config.server, config.resource_server))))
    except FencepostError as error:
        return str(error)


@contextmanager
def _place(asked: Order, worker: Worker) -> Iterator[str]:
    """Where the folder of the run goes; one that is to be sent lies here for as long as the block lasts."""
    if asked.results:
        yield asked.results
        return
    with on_disk(here := Path(worker.local_directory)):
        here.mkdir(parents=True, exist_ok=True)
        place = TemporaryDirectory(prefix="fencepost-run-", dir=here)
    with place as results:
        yield results


def _packed(made: Made, results: str) -> bytes:
    return pack(RunFolder(Path(results) / made.line.folder)) if made.line else b""
