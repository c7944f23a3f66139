"""What runs in a Dask worker: it has one process that makes runs, passes orders on to it and shows how it goes."""

from __future__ import annotations

import threading
from typing import Final

import msgspec
from distributed import get_worker

from harness.campaign.one_run import Order
from harness.campaign.player_process import PlayerProcess
from harness.run.messages import encode
from harness.run.snapshot import Snapshot

TOPIC: Final = "fencepost"
"""Under which a worker shows how its run goes: (its name, cell, seed, phase, seconds, of seconds)."""

_player = PlayerProcess()
_called_off = threading.Event()
_idle = threading.Lock()


def play(order: bytes, limit_s: float) -> bytes:
    """Make a run: an `Order` in, a `Made` out. Raises PlayerDiedError; then it can be tried again."""
    wanted = msgspec.json.decode(order, type=Order)
    worker = get_worker()

    def shown(now: Snapshot) -> None:
        said = [str(worker.name), wanted.cell, wanted.seed, now.phase, now.elapsed_s, now.total_s]
        worker.log_event(TOPIC, said)

    with _idle:
        return encode(_player.play(wanted, limit_s, shown, _called_off.is_set))


def leave() -> None:
    """Take down the run under way, if there is one, and make no more. Returns when nothing of it is left."""
    _called_off.set()
    with _idle:
        _player.end()
