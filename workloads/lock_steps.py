"""What a client of any workload does with its lock, one step at a time: acquire, extend, release. Each step records
itself and returns what it recorded.

The steps of a workload between them (read, write, …) are recorded through `LockSteps.step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any, Final, Literal, TypeVar

from fencepost.errors import BrokenEnvironmentError, FencepostError, UsageError
from fencepost.history import LATEST_NS, Op, Outcome
from fencepost.user_code import in_words
from workloads.answer_checks import checked_lease, checked_words, checked_yes
from workloads.base import (
    CanBeCancelled,
    CancelledCallError,
    KnowsIfHeld,
    Lease,
    LetsReadersIn,
    Lock,
    RunsStatements,
    ShowsError,
)
from workloads.calling import calling
from workloads.control import Control, State
from workloads.options import ClientOptions
from workloads.recorder import Recorder
from workloads.resource import StaleAccessError

T = TypeVar("T")
_MOST_CHARACTERS: Final = 300


class LockSteps:
    """One client's steps, one section at a time. Keeps the lease that the client has.

    A step that does not fit the previous ones raises UsageError and records nothing. A step also raises whatever breaks
    the run itself: a lock command that died, a full disk.
    """

    def __init__(
        self,
        client: str,
        options: ClientOptions,
        lock: Lock,
        record: Recorder,
        control: Control,
        first_section: int = 1,
        reopened: Callable[[], Lock] | None = None,
    ) -> None:
        """`reopened`: closes the lock and opens another one; None: it stays open."""
        self.client = client
        self.options = options
        self._lock = lock
        self._reopened = reopened
        self._opened_ns = monotonic_ns()
        self._in_its_words = lock if isinstance(lock, ShowsError) else None
        self._record = record
        self._control = control
        self._section = first_section - 1
        self._wanted: tuple[str, bool] | None = None
        self._ask: Callable[[str, int], Lease | None] = lock.acquire
        self._lease: Lease | None = None
        self._inner: list[Lease] = []
        self._uncommitted: list[Op] = []
        self._lapses_ns = 0
        self._answered_ns = 0

    @property
    def section(self) -> int:
        """The number of the section that the client is in, or was in or tried to enter last."""
        return self._section

    @property
    def lapses_ns(self) -> int:
        """When the lease ends, as far as the client can tell: at its deadline or, if it has none, when its validity has
        passed since the client learned of it."""
        self.held("look at its lease")
        return self._lapses_ns

    @property
    def gone_ns(self) -> int:
        """When the keys of its lease have expired for certain: also those of an extension that was refused, or not
        answered, and took effect on some nodes."""
        return max(self.lapses_ns, self._answered_ns + int(self.options.ttl_ms * 1e6))

    def held(self, step: str) -> Lease:
        """The lease that the client holds. Raises UsageError, naming the step that needs it, if there is none."""
        if self._lease is None:
            raise UsageError(f"{self.client} is not inside and cannot {step}; it must acquire first")
        return self._lease

    def acquire(self, key: str, *, shared: bool = False, cancel_after_ms: float | None = None) -> Op:
        """One attempt, as a reader if it is `shared`. An attempt after a refusal belongs to the same section; any other
        begins the next section. `cancel_after_ms`: the user cancels it if it takes so long; None: never."""
        if self._lease is not None:
            raise UsageError(f"{self.client} holds {self._lease.key} and cannot acquire {key} too; release it first")
        if self._wanted != (key, shared):
            self._section, self._wanted = self._section + 1, (key, shared)
        self._ask = self._readers_acquire() if shared else self._lock.acquire
        self._control.ask_for(key)
        invoke_ns = monotonic_ns()
        self._control.enter(State.ACQUIRING, invoke_ns)
        lease, error, is_cancelled = self._cancellable(lambda: self._ask(key, self.options.ttl_ms), cancel_after_ms)
        complete_ns = monotonic_ns()
        lease = checked_lease("acquire", lease, key)
        if lease is None:
            op = self._refused("acquire", key, invoke_ns, complete_ns, error)
        else:
            op = self._granted("acquire", lease, invoke_ns, complete_ns)
        op.shared, op.cancelled = shared, is_cancelled
        self._recorded(op)
        if lease is None:
            self._control.count(self._record.ops, self._section - 1)
            return op
        self._wanted = None
        self._take(lease, op)
        self._control.enter(State.INSIDE, monotonic_ns())
        self._control.count(self._record.ops, self._section)
        return op

    def extend(self) -> Op:
        """Extend the lease to a full TTL from now. If that is refused or not answered, the old lease is kept, and a
        careful user stops working and releases the lock."""
        lease = self.held("extend")
        invoke_ns = monotonic_ns()
        self._control.enter(State.EXTENDING, invoke_ns)
        extended, error = self._answer(lambda: self._lock.extend(lease, self.options.ttl_ms))
        complete_ns = self._answered_ns = monotonic_ns()
        self._control.enter(State.INSIDE, complete_ns)
        extended = checked_lease("extend", extended, lease.key)
        if extended is None:
            return self._recorded(self._refused("extend", lease.key, invoke_ns, complete_ns, error))
        op = self._recorded(self._granted("extend", extended, invoke_ns, complete_ns))
        self._take(extended, op)
        return op

    def still_held(self) -> Op:
        """Ask the lock whether the client still holds it. `ok`: it says yes."""
        lease, lock = self.held("ask"), self._lock
        if not isinstance(lock, KnowsIfHeld):
            raise UsageError(
                f"--renewal: {type(lock).__name__} has no is_held, so it cannot say whether it is still held"
            )
        invoke_ns = monotonic_ns()
        is_held, error = self._answer(lambda: lock.is_held(lease))
        complete_ns = monotonic_ns()
        outcome = _outcome("is_held", is_held, error)
        op = Op("held", outcome, lease.key, self._section, invoke_ns, complete_ns, error=error)
        if op.outcome == "ok" and not lease.open_ended:
            op.granted_ms = lease.granted_ms or self.options.ttl_ms
        return self._recorded(op)

    def reenter(self) -> Op:
        """Acquire the lock that the client holds once more, in the same way. If that is refused or not answered,
        nothing has changed."""
        outer = self.held("reenter")
        invoke_ns = monotonic_ns()
        self._control.enter(State.REENTERING, invoke_ns)
        inner, error = self._answer(lambda: self._ask(outer.key, self.options.ttl_ms))
        complete_ns = monotonic_ns()
        self._control.enter(State.INSIDE, complete_ns)
        inner = checked_lease("acquire", inner, outer.key)
        if inner is None:
            return self._recorded(self._refused("reenter", outer.key, invoke_ns, complete_ns, error))
        self._inner.append(inner)
        return self._recorded(self._granted("reenter", inner, invoke_ns, complete_ns))

    def leave(self) -> Op:
        """Undo the last `reenter`. Whatever the outcome, the client is still inside."""
        outer = self.held("leave")
        if not self._inner:
            raise UsageError(f"{self.client} has acquired {outer.key} only once and cannot leave; release it")
        inner = self._inner.pop()
        invoke_ns = monotonic_ns()
        self._control.enter(State.LEAVING, invoke_ns)
        left, error = self._answer(lambda: self._lock.release(inner))
        complete_ns = monotonic_ns()
        self._control.enter(State.INSIDE, complete_ns)
        outcome = _outcome("release", left, error)
        return self._recorded(Op("leave", outcome, outer.key, self._section, invoke_ns, complete_ns, error=error))

    def release(self, *, cancel_after_ms: float | None = None) -> Op:
        """Release the lock. Whatever the outcome, the client has left its section. `cancel_after_ms`: as in
        `acquire`."""
        lease, self._lease = self.held("release"), None
        self._inner.clear()
        invoke_ns = monotonic_ns()
        self._control.enter(State.RELEASING, invoke_ns)
        released, error, is_cancelled = self._cancellable(lambda: self._lock.release(lease), cancel_after_ms)
        complete_ns = monotonic_ns()
        outcome = _outcome("release", released, error)
        op = Op("release", outcome, lease.key, self._section, invoke_ns, complete_ns, cancelled=is_cancelled)
        op.error = self._why(error) if outcome != "ok" else None
        for step in self._uncommitted:
            step.outcome, step.error = op.outcome, op.error
            self._record(step)
        self._uncommitted.clear()
        self._recorded(op)
        self._control.enter(State.RESTING, op.complete_ns)
        return op

    def give_up(self) -> None:
        """Stop trying: the next acquire begins another section, also one of the same key."""
        self._wanted = None
        self._control.count(self._record.ops, self._section)
        self._control.enter(State.RESTING, monotonic_ns())

    def forget(self) -> None:
        """Leave the section without a release. Nothing is recorded: the next acquire ends the section."""
        self._lease = None
        self._inner.clear()

    def reopen_if_due(self, *also: LockSteps) -> None:
        """Between two sections: go on with another lock object if this one has been used for long enough. `also`: who
        shares it."""
        reopen_ms = self.options.reopen_ms
        if reopen_ms is None or self._reopened is None or monotonic_ns() - self._opened_ns < reopen_ms * 1e6:
            return
        lock = self._reopened()
        for steps in (self, *also):
            steps._lock, steps._opened_ns = lock, monotonic_ns()
            steps._in_its_words = lock if isinstance(lock, ShowsError) else None

    def run(self, statement: str, values: Sequence[str]) -> str | None:
        """Run a statement in the transaction that holds the lock. Raises UsageError if the lock cannot."""
        if not isinstance(self._lock, RunsStatements):
            raise UsageError(f"{type(self._lock).__name__} has no `run`, so it keeps no data in its transaction")
        return self._lock.run(self.held("run a statement"), statement, values)

    def step(
        self,
        f: str,
        call: Callable[[], int | None],
        result: str | None = None,
        *,
        is_committed_by_release: bool = False,
        **fields: Any,
    ) -> Op:
        """Take a step of the workload inside the section: `call` does it.

        It is recorded as `ok`; as `fail` if the resource refused it (StaleAccessError); as `info` if it raised anything
        else, because then its outcome is unknown. `result`: the field of the record that keeps what `call` returned.
        `is_committed_by_release`: a step that succeeds is recorded with the release, and with its outcome. `fields`:
        further fields of the record.
        """
        key = self.held(f).key
        outcome: Outcome = "ok"
        invoke_ns = monotonic_ns()
        try:
            returned = call()
            if result is not None:
                fields[result] = returned
        except FencepostError:
            raise
        except StaleAccessError as caught:
            outcome, fields["stale"], fields["error"] = "fail", True, str(caught)
        except Exception as caught:
            outcome, fields["error"] = "info", _in_words(caught)
        op = Op(f, outcome, key, self._section, invoke_ns, monotonic_ns(), **fields)
        if is_committed_by_release and outcome == "ok":
            self._uncommitted.append(op)
            return op
        return self._recorded(op)

    def _answer(self, call: Callable[[], T]) -> tuple[T | None, str | None]:
        """What the lock returned, or the error that leaves the outcome unknown. Raises what breaks the run itself, and
        CancelledCallError."""
        try:
            with calling(self.client):
                return call(), None
        except (FencepostError, CancelledCallError):
            raise
        except (SystemExit, KeyboardInterrupt) as error:
            raise BrokenEnvironmentError(f"the lock ended its client: {in_words(error)}") from error
        except BaseException as error:  # that of asyncio's cancellation is no Exception
            return None, _in_words(error)

    def _cancellable(self, call: Callable[[], T], after_ms: float | None) -> tuple[T | None, str | None, bool]:
        """As `_answer`, and whether the user cancelled the call. Raises UsageError if that needs a lock that can."""
        if after_ms is not None:
            if not isinstance(self._lock, CanBeCancelled):
                raise UsageError(
                    f"--cancel: {type(self._lock).__name__} has no cancel_after, so no call can be cancelled"
                )
            self._lock.cancel_after(after_ms)
        try:
            return *self._answer(call), False
        except CancelledCallError as error:
            return None, _in_words(error), True

    def _readers_acquire(self) -> Callable[[str, int], Lease | None]:
        if not isinstance(self._lock, LetsReadersIn):
            raise UsageError(f"{type(self._lock).__name__} has no acquire_shared, so it cannot let readers in together")
        return self._lock.acquire_shared

    def _take(self, lease: Lease, op: Op) -> None:
        """A lease without a validity is counted from before the call, as a careful user would."""
        self._lease = lease
        self._answered_ns = op.complete_ns
        if lease.open_ended:
            self._lapses_ns = LATEST_NS
        elif lease.deadline_ns is not None:
            self._lapses_ns = lease.deadline_ns
        elif lease.validity_ms is not None:
            self._lapses_ns = op.complete_ns + int(lease.validity_ms * 1e6)
        else:
            self._lapses_ns = op.invoke_ns + int((op.granted_ms or self.options.ttl_ms) * 1e6)

    def _granted(
        self, f: Literal["acquire", "extend", "reenter"], lease: Lease, invoke_ns: int, complete_ns: int
    ) -> Op:
        granted_ms = lease.granted_ms
        if granted_ms is None and lease.validity_ms is None and not lease.open_ended:
            granted_ms = self.options.ttl_ms
        return Op(
            f,
            "ok",
            lease.key,
            self._section,
            invoke_ns,
            complete_ns,
            token=lease.token,
            token_source=None if lease.token is None else "lock",
            validity_ms=lease.validity_ms,
            deadline_ns=lease.deadline_ns,
            computed_after_ns=lease.computed_after_ns,
            computed_before_ns=lease.computed_before_ns,
            requested_ns=lease.requested_ns,
            granted_ms=granted_ms,
        )

    def _refused(
        self, f: Literal["acquire", "extend", "reenter"], key: str, invoke_ns: int, complete_ns: int, error: str | None
    ) -> Op:
        """`error`: what left the outcome unknown; None: it was refused."""
        outcome: Outcome = "fail" if error is None else "info"
        return Op(f, outcome, key, self._section, invoke_ns, complete_ns, error=self._why(error))

    def _why(self, error: str | None) -> str | None:
        """`error`, or what the lock said when it refused."""
        if error is not None or self._in_its_words is None:
            return error
        said = checked_words(self._in_its_words.take_error())
        return None if said is None else said[:_MOST_CHARACTERS]

    def _recorded(self, op: Op) -> Op:
        self._record(op)
        return op


def _outcome(verb: str, answer: object, error: str | None) -> Outcome:
    """Of a question that is answered by yes or no."""
    if error is not None:
        return "info"
    return "ok" if checked_yes(verb, answer) else "fail"


def _in_words(error: BaseException) -> str:
    return in_words(error)[:_MOST_CHARACTERS]
