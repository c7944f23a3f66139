"""Parallel runs, on the workers of a Dask cluster (`distributed`).

Each run is given to an idle worker by name, so that a worker that must not make runs gets none, and none makes two at a
time. A worker makes it in a process of its own (`harness.campaign.worker`). What it made comes back as a line, and the
folder with it if it lies on another machine; only the command writes the record, so whatever becomes of workers and
schedulers, each run stands there once.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fencepost.errors import BrokenEnvironmentError, FencepostError
from fencepost.text import printable
from harness.campaign import worker
from harness.campaign.concurrency import Pace
from harness.campaign.dask_cluster import AWAY_S, present_at
from harness.campaign.equipment import Equipment
from harness.campaign.one_run import Made, Order
from harness.campaign.plan_order import Slot
from harness.campaign.worker import Refused
from harness.campaign.workers_view import WorkersView
from harness.run.messages import Failed, decode, encode
from harness.store.archive import unpack

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_EVERY_S: Final = 0.2
_FETCH_S: Final = 30.0
_TRIES: Final = 3
"""How often a run is begun whose worker dies or breaks it off. One that never ends has failed."""
_BREAKS_IN_A_ROW: Final = 2
"""A worker on which so many runs are aborted gets no more, as long as there are others. One that aborts each time may
itself be the reason."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A run that a worker was given. `worker`: its address."""

    order: Order
    worker: str
    name: str


class Workers:
    """The workers of a cluster, as many at a time as the pace says. `results`: where run folders go that lie elsewhere;
    None if the workers write there themselves."""

    def __init__(
        self, client: Client, wanted: Equipment, view: WorkersView, pace: Pace, *, results: Path | None = None
    ) -> None:
        self._client = client
        self._wanted = encode(wanted)
        self._view = view
        self._pace = pace
        self._results = results
        self._seen = set[str]()
        self._used = set[str]()
        self._refused = dict[str, str]()
        self._broke = defaultdict[str, set[Slot]](set)
        self._tries = Counter[Slot]()
        self._changed = threading.Event()
        self._is_listening = False
        """Whether the scheduler knows that it is to pass on what the workers show. One that was restarted does not."""

    def play(
        self,
        orders: Sequence[Order],
        limit_s: Callable[[Order], float],
        is_interrupted: Callable[[], bool],
        is_given_up: Callable[[Order], bool] = lambda _: False,
    ) -> Generator[tuple[Order, Made], None, None]:
        """Make the runs, in this order as far as they begin, without the ones that are given up by then; yields what
        was made as it comes. Ends early when interrupted: runs under way are taken down and not among those yielded.
        Raises BrokenEnvironmentError if no worker is there to make them."""
        waiting, given = deque(orders), dict[Any, _Given]()
        last_seen_s = time.monotonic()
        try:
            while (waiting or given) and not is_interrupted():
                present = self._present()
                if present:
                    last_seen_s = time.monotonic()
                elif time.monotonic() > last_seen_s + AWAY_S:
                    raise BrokenEnvironmentError(f"the scheduler had no worker for {AWAY_S:.0f} s")
                for order, made in self._ended(given, present):
                    if made is None:
                        waiting.appendleft(order)
                    else:
                        if change := self._pace.learn(order, made):
                            self._view.say(change)
                        yield order, made
                waiting = deque(order for order in waiting if not is_given_up(order))
                self._give(waiting, given, present or {}, limit_s)
                self._changed.wait(_LOOK_EVERY_S)
                self._changed.clear()
        finally:
            self._take_down(given)

    def _present(self) -> Mapping[str, str] | None:
        """The addresses of the workers that may make runs, and their names; None while the scheduler is away. Raises
        BrokenEnvironmentError if it is gone for good, or if every worker that was ever there was refused."""
        if self._client.status == "closed":
            raise BrokenEnvironmentError("the scheduler of the workers is gone, and did not come back")
        if (found := present_at(self._client)) is None:
            self._is_listening = False
            return None
        if not self._is_listening:
            self._client.subscribe_topic(worker.TOPIC, lambda event: self._view.update(tuple(event[1])))
            self._is_listening = True
        self._seen |= found.keys()
        if self._seen and self._seen == self._refused.keys():
            whys = "; ".join(sorted(set(self._refused.values())))
            raise BrokenEnvironmentError(f"no worker can make these runs: {whys}")
        return {address: name for address, name in found.items() if address not in self._refused}

    def _ended(
        self, given: dict[Future[Any], _Given], present: Mapping[str, str] | None
    ) -> Iterator[tuple[Order, Made | None]]:
        """The runs that are no longer under way, and what became of each; None if it is to be made again."""
        for future, run in list(given.items()):
            if future.done():
                del given[future]
                yield run.order, self._outcome(future, run, present or {})
            elif present is not None and run.worker not in present:
                del given[future]
                future.cancel()  # should the worker come back, it is not to make this run behind our back
                yield run.order, self._died(run, "its worker was gone")

    def _give(
        self,
        waiting: deque[Order],
        given: dict[Future[Any], _Given],
        present: Mapping[str, str],
        limit_s: Callable[[Order], float],
    ) -> None:
        """Give runs to the workers that are idle."""
        busy = {run.worker for run in given.values()}
        idle = [each for each in present if each not in busy and each not in self._refused]
        for address in idle[: max(0, self._pace.count - len(busy))]:
            if (next_one := self._next(waiting, address, present)) is None:
                continue
            waiting.remove(next_one)
            order = msgspec.structs.replace(next_one, at_once=self._pace.count)
            self._tries[order.slot] += 1
            self._used.add(address)
            future = self._client.submit(
                worker.play, encode(order), limit_s(order), self._wanted, workers=[address], pure=False
            )
            future.add_done_callback(lambda _: self._changed.set())
            given[future] = _Given(order, address, printable(present[address]))

    def _next(self, waiting: deque[Order], address: str, present: Mapping[str, str]) -> Order | None:
        """The first run that was not aborted on this worker; one that was aborted on all of them goes anywhere."""
        for order in waiting:
            broke_on = {each for each in present if order.slot in self._broke[each]}
            if address not in broke_on or len(broke_on) == len(present):
                return order
        return None

    def _outcome(self, future: Future[Any], run: _Given, present: Mapping[str, str]) -> Made | None:
        """What became of a run; None if it is to be made again."""
        if future.status == "finished":
            try:
                answer, parcel = future.result(timeout=_FETCH_S)
            except (CancelledError, OSError):  # the worker died with what it had made
                return self._died(run, "its worker was gone")
            match decode(answer, Made | Refused):  # type: ignore[arg-type]
                case Refused(why):
                    self._refuse(run, why)
                    return None
                case Made() as made:
                    if parcel and self._results is not None and made.line is not None:
                        unpack(parcel, made.line.folder, self._results)
                    return self._counted(made, run, present)
        if future.status == "cancelled":  # the scheduler is away, which is not this run's doing
            self._tries[run.order.slot] -= 1
            self._is_listening = False
            return None
        error = future.exception()
        if isinstance(error, ImportError):
            self._refuse(run, f"it cannot import fencepost: {error}")
            return None
        if isinstance(error, FencepostError):
            return self._died(run, str(error))
        return Made(failure=Failed("internal", f"worker {run.name} cannot make the run: {error!r}"))

    def _refuse(self, run: _Given, why: str) -> None:
        self._tries[run.order.slot] -= 1
        self._refused[run.worker] = f"worker {run.name}: {why}"
        self._view.say(f"worker {run.name} is given no runs: {printable(why)}")

    def _died(self, run: _Given, why: str) -> Made | None:
        if self._tries[run.order.slot] < _TRIES:
            return None
        return Made(failure=Failed("environment", f"no worker lived to its end, {_TRIES} times ({why})"))

    def _counted(self, made: Made, run: _Given, present: Mapping[str, str]) -> Made | None:
        """A run that was aborted for a reason that its machine may have is given to another worker. So is one that was
        taken down because its worker is leaving."""
        if made.line is None and made.failure is None:
            return None
        if made.failure is None or made.failure.kind != "environment":
            self._broke[run.worker].clear()
            return made
        if len(present) < 2 or self._tries[run.order.slot] >= _TRIES:
            return made
        self._broke[run.worker].add(run.order.slot)
        self._view.say(f"a run was aborted on worker {run.name}, and is made again: {printable(made.failure.text)}")
        if len(self._broke[run.worker]) >= _BREAKS_IN_A_ROW:
            self._refuse(run, f"runs break off there: {made.failure.text}")
        return None

    def _take_down(self, given: Mapping[Future[Any], _Given]) -> None:
        """Take down what is under way, and wait until nothing of it is left."""
        if self._client.status != "running":
            return
        with suppress(Exception):  # a worker that is gone has nothing left to take down
            self._client.cancel(list(given), force=True)
            keys = [future.key for future in given]
            # A worker that is known to be gone would be dialled for half a minute.
            there = sorted(self._used & (present_at(self._client) or {}).keys())
            self._client.run(worker.rest, keys, workers=there, on_error="ignore")
