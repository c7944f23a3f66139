"""Runs side by side, through Dask (`distributed`): its scheduler hands each run to an idle worker, and to another
one if that worker dies.

A worker plays one run at a time, in a process of its own (`harness.campaign.worker`). What it made comes back as a
line; only the command writes the record.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final, Protocol

from cluster.lifetime import temporary_folder
from fencepost.errors import BrokenEnvironmentError, FencepostError
from harness.campaign import worker
from harness.campaign.one_run import Made, Order
from harness.run.messages import Failed, decode, encode

_LOOK_EVERY_S: Final = 0.2
_COME_UP_S: Final = 60.0
_COME_DOWN_S: Final = 60.0
_RETRIES: Final = 2
"""How often a run is made again whose worker or player has died. One that always dies has failed."""

Showing = tuple[str, str, int, str, float, float]
"""A worker's name, and of its run: cell, seed, phase, seconds since the start of the load, and of how many."""


class View(Protocol):
    """Whoever shows how the workers are getting on. Called from any thread."""

    def update(self, shown: Showing) -> None: ...


class Workers:
    """Dask workers that are ready. `count`: how many."""

    def __init__(self, client: Any, count: int) -> None:
        self._client = client
        self.count = count

    def play(
        self, orders: Sequence[Order], limit_s: Callable[[Order], float], is_interrupted: Callable[[], bool]
    ) -> Generator[tuple[Order, Made], None, None]:
        """Make the runs, in this order as far as they begin; yields what was made as it comes. Ends early when
        interrupted: runs under way are taken down and not among those yielded. Raises BrokenEnvironmentError."""
        from distributed import wait

        waiting, under_way = deque(orders), dict[Any, Order]()
        try:
            while (waiting or under_way) and not is_interrupted():
                while waiting and len(under_way) < self.count:
                    order = waiting.popleft()
                    future = self._client.submit(
                        worker.play, encode(order), limit_s(order), pure=False, retries=_RETRIES
                    )
                    under_way[future] = order
                with suppress(TimeoutError):
                    wait(list(under_way), timeout=_LOOK_EVERY_S, return_when="FIRST_COMPLETED")
                for future in [each for each in under_way if each.done()]:
                    made = _made(future)
                    yield under_way.pop(future), made
        finally:
            if under_way:
                self._client.cancel(list(under_way), force=True)


@contextmanager
def local_workers(count: int, view: View) -> Iterator[Workers]:
    """So many workers on this machine, for as long as the block lasts. At its end, runs under way are taken down.
    Raises BrokenEnvironmentError if they do not come up."""
    from distributed import Client

    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="fencepost-workers-", dir=temporary_folder()))
        address = stack.enter_context(_hub(count, folder))
        try:
            client = stack.enter_context(Client(address, timeout=_COME_UP_S))
            client.wait_for_workers(count, timeout=_COME_UP_S)
        except (OSError, TimeoutError) as error:
            raise BrokenEnvironmentError(f"the workers do not come up: {error}") from error
        client.subscribe_topic(worker.TOPIC, lambda event: view.update(tuple(event[1])))
        try:
            yield Workers(client, count)
        finally:
            with suppress(Exception):  # a worker that is gone has nothing left to take down
                client.run(worker.leave, on_error="ignore")


@contextmanager
def _hub(count: int, folder: str) -> Iterator[str]:
    """Where the scheduler of these workers listens."""
    path = os.pathsep.join(each for each in sys.path if each)
    with TemporaryFile() as printed:
        hub = subprocess.Popen(
            [sys.executable, "-m", "harness.campaign.hub", str(count), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert hub.stdin is not None
        assert hub.stdout is not None
        try:
            if not (address := hub.stdout.readline().decode().strip()):
                printed.seek(0)
                last = printed.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise BrokenEnvironmentError(f"the workers do not come up: {last}")
            yield address
        finally:
            hub.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                hub.wait(_COME_DOWN_S)
            hub.kill()
            hub.wait()
            hub.stdout.close()


def _made(future: Any) -> Made:
    if future.status == "finished":
        return decode(future.result(), Made)
    error = future.exception()
    if isinstance(error, FencepostError):
        return Made(failure=Failed.of(error))
    return Made(failure=Failed("environment", f"its worker died again and again ({error})"))
