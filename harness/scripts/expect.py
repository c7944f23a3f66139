"""What a scripted experiment expects of its verdict, declared before it runs. `&` combines expectations.

The process that plays the steps imports it too, and never judges: the checkers are imported when there is a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.errors import UsageError
from fencepost.text import plural
from harness.history.parts_that_fail import AT_FAULT, Part
from harness.verdict import F, Verdict

if TYPE_CHECKING:
    from harness.checkers import capacity, exclusion, fencing, liveness, updates
    from harness.history.overlaps import OverlapBlame


@dataclass(frozen=True, slots=True)
class Expectation:
    """`says`: the expectation as text; `holds`: whether a verdict meets it."""

    says: str
    holds: Callable[[Verdict], bool]

    def __and__(self, other: Expectation) -> Expectation:
        return Expectation(
            f"{self.says}, and {other.says}", lambda verdict: self.holds(verdict) and other.holds(verdict)
        )


def overlaps_blamed_on(blame: OverlapBlame) -> Expectation:
    """Two clients were inside at the same time, blamed on `blame` (`lock`, `client` or `undecided`)."""
    by_whom = "undecided" if blame == "undecided" else f"blamed on the {blame}"
    return Expectation(
        f"two holders at the same time, {by_whom}", lambda verdict: _exclusion(verdict).overlaps[blame] > 0
    )


def failed_by(part: Part) -> Expectation:
    """The nodes show that this part of the lock failed in an overlap."""
    return Expectation(
        f"an overlap, {AT_FAULT[part]}", lambda verdict: (_exclusion(verdict).lock_by_part or {}).get(part, 0) > 0
    )


def no_overlaps_blamed_on(blame: OverlapBlame) -> Expectation:
    return Expectation(f"no overlap blamed on the {blame}", lambda verdict: _exclusion(verdict).overlaps[blame] == 0)


def no_overlaps() -> Expectation:
    """No two clients were inside at the same time, regardless of who would be to blame."""
    return Expectation("never two holders at the same time", lambda verdict: _exclusion(verdict).overlapping_pairs == 0)


def capacity_exceeded() -> Expectation:
    """More clients than permits were inside at the same time, and the lock is to blame."""
    return Expectation(
        "more holders than permits, blamed on the lock",
        lambda verdict: _capacity(verdict).beyond["lock"] > 0,
    )


def capacity_kept(grants: int) -> Expectation:
    """Never more clients than permits, and this many grants in all."""

    def holds(verdict: Verdict) -> bool:
        found = _capacity(verdict)
        return not any(found.beyond.values()) and found.sections == grants

    return Expectation(f"never more holders than permits, and {plural(grants, 'grant')} in all", holds)


def sections(number: int) -> Expectation:
    """Clients acquired the lock this many times. Prevents an experiment in which nothing happened from passing."""
    return Expectation(f"{plural(number, 'section')} in all", lambda verdict: _exclusion(verdict).sections == number)


def waited_at_most(limit_ms: int) -> Expectation:
    """Every client that acquired the lock had it this long after it first asked; holds too if none did."""
    return Expectation(
        f"no client waits for longer than {limit_ms} ms",
        lambda verdict: (_liveness(verdict).wait_ms.max or 0) <= limit_ms,
    )


def waited_longer_than(limit_ms: int) -> Expectation:
    """A client had the lock only when more than this time had passed since it first asked."""
    return Expectation(
        f"a client waits for longer than {limit_ms} ms",
        lambda verdict: (_liveness(verdict).wait_ms.max or 0) > limit_ms,
    )


def lost_updates() -> Expectation:
    return Expectation("an acknowledged update is lost", lambda verdict: _updates(verdict).lost > 0)


def no_lost_updates() -> Expectation:
    return Expectation("no acknowledged update is lost", lambda verdict: _updates(verdict).lost == 0)


def stale_writes_refused() -> Expectation:
    """Fencing worked: the resource refused at least one stale write."""
    return Expectation(
        "the resource refuses a stale write",
        lambda verdict: _fencing(verdict).stale_writes_rejected > 0,
    )


def no_writes_refused() -> Expectation:
    return Expectation("no write is refused", lambda verdict: _fencing(verdict).stale_writes_rejected == 0)


def tokens_went_back() -> Expectation:
    """A section got a token that is not larger than that of a section that had already ended."""
    return Expectation("a token repeats or goes back", lambda verdict: _fencing(verdict).tokens_not_increasing > 0)


def no_tokens_went_back() -> Expectation:
    return Expectation("tokens grow", lambda verdict: _fencing(verdict).tokens_not_increasing == 0)


def _exclusion(verdict: Verdict) -> exclusion.Figures:
    from harness.checkers.exclusion import Figures

    return _figures(verdict, Figures)


def _capacity(verdict: Verdict) -> capacity.Figures:
    from harness.checkers.capacity import Figures

    return _figures(verdict, Figures)


def _fencing(verdict: Verdict) -> fencing.Figures:
    from harness.checkers.fencing import Figures

    return _figures(verdict, Figures)


def _liveness(verdict: Verdict) -> liveness.Figures:
    from harness.checkers.liveness import Figures

    return _figures(verdict, Figures)


def _updates(verdict: Verdict) -> updates.UpdateFigures:
    from harness.checkers.updates import UpdateFigures

    return _figures(verdict, UpdateFigures)


def _figures(verdict: Verdict, kind: type[F]) -> F:
    found = verdict.of(kind)
    if found is None:
        checker = kind.__module__.rpartition(".")[2]
        raise UsageError(f"the expectation is about the checker {checker}, which does not judge this workload")
    return found
